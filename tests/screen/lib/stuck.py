"""Ends hearth while a terminal that nobody reads takes no more.

usage: stuck.py SIGNAL HEARTH ARGUMENTS...
Begins a reply, has the screen drawn until the program waits in a write, and ends with the status
that the signal gives it; 1 if that is never so."""
import fcntl, os, pty, select, signal, struct, sys, termios, time

command = sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 60, 200, 0, 0))
seen = b''
while b'> ' not in seen:
    seen += os.read(fd, 65536)
theirs = os.open(f'/proc/{pid}/fd/0', os.O_RDWR | os.O_NOCTTY)
os.write(fd, b'tell me all\r')


def is_full():
    return not select.select([], [theirs], [], 0)[1]


def status():
    gone, how = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(how) if gone else None


# Full, and with a frame to come, since it has not taken what was typed.
deadline = time.monotonic() + 60
while not (is_full() and struct.unpack('i', fcntl.ioctl(theirs, termios.FIONREAD, b'0000'))[0] > 0):
    if time.monotonic() > deadline:
        sys.exit('the terminal takes all that is drawn')
    os.write(fd, b'\x0c')
    time.sleep(.02)
os.kill(pid, getattr(signal, sys.argv[1]))
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    how = status()
    if how is not None:
        sys.exit(how)
    time.sleep(.02)
os.kill(pid, signal.SIGKILL)
print('# still there')
sys.exit(1)
