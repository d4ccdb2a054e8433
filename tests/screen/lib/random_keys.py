"""Random keys at the line prompt of hearth, on a pseudo-terminal.

usage: random_keys.py SEED KEYS HEARTH ARGUMENTS...
Ends with status 0 if hearth answers afterwards, leaves with status 0 and no sanitizer spoke."""
import fcntl, os, pty, random, select, signal, struct, sys, termios, time

seed, n_keys, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
rng = random.Random(seed)
words = ['draft', 'page', 'a', 'What is', 'x', 'wörd', '日本', 'hello', '/he', '/set te', '"', '  ']
edits = ['\x01', '\x02', '\x05', '\x06', '\x07', '\x08', '\x0b', '\x0c', '\x14', '\x15',
         '\x17', '\x19', '\x1f', '\x7f', '\t', '\n', '\x1b\r', '\x1bb', '\x1bf', '\x1bd', '\x1bu',
         '\x1by', '\x1b.', '\x1b3', '\x1b-', '\x1b<', '\x1b>', '\x1b[A', '\x1b[B', '\x1b[C',
         '\x1b[D', '\x1b[H', '\x1b[F', '\x1b[3~', '\x1bOA', '\x18\x15', '\x18\x05', '\x16\x01',
         '\x1b[200~two\rlines\x1b[201~', '\x1b[200~/undo\x1b[201~']
search = ['\x12', '\x13', '\x12draf', '\x12\x12', '\x0e', '\x10', '\x1bp', '\x1bn', '\x1b[A\x1b[A',
          '\x1bpdra\r', '\x1bp\r', '\x1b[5~', '\x1b[6~']
vi = ['\x1b', '\x1bk', '\x1bj', '\x1bdd', '\x1bu', '\x1bcw', '\x1b.', '\x1b/', '\x1b/dra\r', '\x1bn', 'i',
      'A', '\x1bx', '\x1bp', '\x1b0', '\x1b$', '\x1b3x', '\x1bR', '\x1bv']
ends = ['\r', '\x03', '\r', '\x03', '/stats\r', '/help\r', '/undo\r', '/retry\r', '/edit\r',
        '/clear\r']

def key():
    kind = rng.random()
    pool = words if kind < .25 else edits if kind < .55 else search if kind < .7 else \
        vi if kind < .8 else ends
    return rng.choice(pool)

pid, fd = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
seen = bytearray()
ended = False

def drain(quiet_s, until=None, limit_s=60):
    deadline = time.monotonic() + limit_s
    start = len(seen)
    while time.monotonic() < deadline:
        ready, _, _ = select.select([fd], [], [], quiet_s or .05)
        if not ready and not until:
            return True
        if ready:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b''
            if not data:
                return until is None
            seen.extend(data)
        if until and until in seen[start:]:
            return True
    return False

def send(text):
    data = text.encode()
    while data:
        _, writable, _ = select.select([], [fd], [], 30)
        if not writable:
            return False
        data = data[os.write(fd, data):]
    return True

def size(rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

def fail(why):
    gone, status = os.waitpid(pid, os.WNOHANG) if not ended else (0, 0)
    if gone:
        why += f' (it ended with status {status:#x})'
    print(f'# seed {seed}: {why}; the last output:')
    for line in bytes(seen[-3000:]).decode(errors='replace').splitlines():
        print('#   ' + ''.join(c if c.isprintable() else f'\\x{ord(c):02x}' for c in line))
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
    sys.exit(1)

size(24, 80)
sent = []
PROMPT = b'\x1b[?2004h'
interrupted = None  # where in seen the last Ctrl-C was sent

def is_idle():
    # All threads sleep, none waits for a processor or a disk, and no editor runs.
    try:
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/stat') as stat:
                if stat.read().rsplit(')', 1)[1].split()[0] != 'S':
                    return False
        with open(f'/proc/{pid}/task/{pid}/children') as children:
            return children.read() == ''
    except OSError:
        return True  # it has ended

def interrupt():
    # A second one that comes much later than an unanswered first one rightly ends the program, so
    # the first is answered by a prompt before another is sent. Lines typed ahead show prompts,
    # too, and on a busy machine it may have had no time for a second: so it is idle, as well.
    global interrupted
    if interrupted is not None and PROMPT not in seen[interrupted:]:
        drain(0, PROMPT)
    for _ in range(1000):
        if interrupted is None or is_idle():
            break
        drain(.01, limit_s=.06)
    interrupted = len(seen)
    return send('\x03')

try:
    if not drain(0, b'/help lists the commands'):
        fail('no greeting')
    for i in range(n_keys):
        sent.append(key())
        if rng.random() < .01:
            size(rng.choice([5, 24, 50]), rng.choice([10, 40, 80, 200]))
        if not (interrupt() if sent[-1] == '\x03' else send(sent[-1])):
            fail('it takes no keys')
        if rng.random() < .5:
            drain(.005)
    size(24, 80)
    # Out of whatever it is in, to an empty line in insert mode; then it must answer and leave.
    # Lines typed ahead may still run on a slow disk, and they take a Ctrl-C: then once more.
    for _ in range(10):
        for text in '\x07', '', '\x1bcc':
            send(text)
            drain(.3)
            interrupt()
            drain(.3)
        # What was typed ahead may end in /stats, too: the last answer is the one to the last line.
        start = len(seen)
        send(f'/stats\r/last-{seed}\r')
        if drain(0, f'no command /last-{seed}'.encode(), 20) and b'memory' in seen[start:]:
            break
    else:
        fail(f'no answer after {sent[-20:]!r}')
    drain(.2)
    send('\x04')
    drain(0, b'\0never')
except OSError as e:
    fail(f'{e} after {sent[-20:]!r}')
_, status = os.waitpid(pid, 0)
ended = True
if b'Sanitizer' in seen or b'double free' in seen or status != 0:
    fail(f'status {status:#x} after {sent[-20:]!r}')
