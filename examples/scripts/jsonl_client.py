#!/usr/bin/env python3
"""A client of hearth's JSON lines: one hearth for many questions, answers as they come.

    jsonl_client.py "What is a token?" "And a page?"

Each question is a line {"prompt": ..., "id": ...}; each event comes back as a line, the last of a
turn with the type "end". The questions are one conversation; ask(new=True) begins another.
"""
import json
import os
import subprocess
import sys


class Hearth:
    def __init__(self, *args):
        command = [os.environ.get("HEARTH", "hearth"), "-q", "--private",
                   "--stdin", "jsonl", "--jsonl", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        encoding="utf-8")
        self.n_asked = 0

    def ask(self, prompt, new=False):
        """Yields the events of one turn."""
        self.n_asked += 1
        request = {"prompt": prompt, "id": self.n_asked, "new": new}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            event = json.loads(line)
            yield event
            if event["type"] == "end":
                return
        raise RuntimeError("hearth ended without an answer")

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def main():
    if len(sys.argv) < 2:
        print("usage: jsonl_client.py QUESTION...", file=sys.stderr)
        return 2
    hearth = Hearth("--temp", "0")
    for question in sys.argv[1:]:
        print(">", question)
        for event in hearth.ask(question):
            if event["type"] == "text":
                print(event["text"], end="", flush=True)
            elif event["type"] == "end" and event["exit"] != 0:
                return hearth.close()  # it has said why
            elif event["type"] == "end":
                usage = event["usage"]
                print(f"\n({usage['cached']} tokens were there, {usage['prefilled']} computed, "
                      f"{usage['generated']} generated)")
    return hearth.close()


if __name__ == "__main__":
    sys.exit(main())
