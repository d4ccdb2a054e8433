"""How a text on the screen looks: reads what `tmux capture-pane -e` prints.

usage: looks.py TEXT
Prints the attributes of the last place that has TEXT, in one line: words among bold, dim, italic,
underline, reverse, fg=N, bg=N (N: 0 to 255, or #rrggbb), or "plain". Status 1 if it is nowhere, or
if its cells differ."""
import re, sys

NAMES = {1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'reverse'}


def apply(codes, look):
    """Changes look, a dict, by the numbers of one SGR sequence."""
    codes = [int(c or 0) for c in codes.split(';')]
    while codes:
        c = codes.pop(0)
        if c == 0:
            look.clear()
        elif c in NAMES:
            look[NAMES[c]] = True
        elif c in (22, 23, 24, 27):
            for name in {22: ('bold', 'dim'), 23: ('italic',), 24: ('underline',), 27: ('reverse',)}[c]:
                look.pop(name, None)
        elif c in (38, 48):
            ground = 'fg' if c == 38 else 'bg'
            if codes.pop(0) == 5:
                look[ground] = str(codes.pop(0))
            else:
                look[ground] = '#%02x%02x%02x' % tuple(codes[:3])
                del codes[:3]
        elif c in (39, 49):
            look.pop('fg' if c == 39 else 'bg', None)
        elif 30 <= c <= 37 or 40 <= c <= 47:
            look['fg' if c < 40 else 'bg'] = str(c % 10)
        elif 90 <= c <= 97 or 100 <= c <= 107:
            look['fg' if c < 100 else 'bg'] = str(8 + c % 10)
        else:
            sys.exit(f'unknown SGR {c}')


def said(look):
    words = [n for n in NAMES.values() if n in look]
    words += [f'{g}={look[g]}' for g in ('fg', 'bg') if g in look]
    return ' '.join(words) or 'plain'


look, last = {}, None
for line in sys.stdin.read().replace('\x0e', '').replace('\x0f', '').split('\n'):
    text, looks = '', []
    for piece in re.split('(\033\\[[0-9;]*m)', line):
        if piece.startswith('\033['):
            apply(piece[2:-1], look)
        else:
            text += piece
            looks += [said(look)] * len(piece)
    at = text.rfind(sys.argv[1])
    if at >= 0:
        last = looks[at:at + len(sys.argv[1])]
if not last:
    sys.exit(f'{sys.argv[1]!r} is not on the screen')
if len(set(last)) > 1:
    sys.exit(f'{sys.argv[1]!r} has several looks: {last}')
print(last[0])
