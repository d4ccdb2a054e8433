#!/usr/bin/env python3
"""What the .TP paragraphs of a manual page list, for tests/shell/man.sh.

usage: man_tags.py PAGE SECTION    one line each: the tag as it is read, a tab, the text below it
"""
import re
import shlex
import sys


def plain(line):
    """A line of the page as a reader sees it."""
    macro = re.match(r'\.(BR|RB|BI|IB|IR|RI|B|I)\s+(.*)', line)
    if macro:
        # shlex takes the quotes away; the backslashes are escapes of the page.
        words = shlex.split(macro[2].replace('\\', '\\\\').replace("'", "\\'"))
        line = (' ' if len(macro[1]) == 1 else '').join(words)
    line = re.sub(r'\\f(\(..|.)', '', line)
    for escape, text in (('\\-', '-'), ('\\(dq', '"'), ('\\(rs', '\\'), ('\\&', '')):
        line = line.replace(escape, text)
    return line


def read(page):
    """(section, tag, text) of every .TP."""
    section, item, tag_next = '', None, False
    for line in open(page, encoding='utf-8'):
        line = line.rstrip('\n')
        if line.startswith('.SH'):
            section = line[3:].strip().strip('"')
        if re.match(r'\.(SH|SS|TP|PP)\b', line):
            if item:
                yield item
            item, tag_next = None, line.startswith('.TP')
        elif line.startswith('.\\"'):
            continue
        elif tag_next:
            item, tag_next = [section, plain(line), ''], False
        elif item:
            item[2] += plain(line) + '\n'
    if item:
        yield item


for section, tag, text in read(sys.argv[1]):
    if section == sys.argv[2]:
        print(tag, ' '.join(text.split()), sep='\t')
