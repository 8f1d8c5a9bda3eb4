/* tty.c - terminals: pushing input into one, and the old doors behind ioctl(2).
 *
 * Each row makes a terminal of its own and takes it as controlling terminal, which is the only way
 * TIOCSTI can work for an ordinary user; so an answer other than the filter's shows. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_REACHED = 200 }; /* above every errno */

static int open_terminal(void)
{
	int master, slave, unlock = 0;

	if (setsid() < 0)
		return -1;
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -1;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return -1;
	return slave;
}

/* num is the request, arg what it points to. The attempt is made by a child, since the row's own
 * process leads a group and so cannot start a session. */
static const char *on_terminal(const struct attack *a)
{
	const char *got;
	int slave, pid = fork();

	if (pid == 0) {
		slave = open_terminal();
		if (slave < 0)
			_exit(NOT_REACHED);
		/* raw: libc would cut the request to 32 bits, as the kernel does */
		_exit(syscall(SYS_ioctl, (long)slave, a->num, a->arg) < 0 ? errno : 0);
	}
	got = answer_child(pid);
	return strcmp(got, "errno-200") == 0 ? "no-terminal" : got;
}

static const char letter = 'x';
static const unsigned char subcode[8] = { 2 };
static const short window[4] = { 24, 80 };
static const int discipline[2] = { 21, 13 }; /* N_GSM0710, N_HDLC */

/* clang-format off */
static const struct attack rows[] = {
ROW("tiocsti", "B", "push a letter into the terminal's input",
	on_terminal, REFUSED, "done|EIO", &letter, TIOCSTI),
ROW("tiocsti-high", "B", "the same with bits above 32 set",
	on_terminal, REFUSED, "done|EIO", &letter, TIOCSTI | 1L << 32),
ROW("tioclinux", "B", "paste by TIOCLINUX", on_terminal, REFUSED, "ENOTTY", subcode, TIOCLINUX),
ROW("tioclinux-high", "B", "the same with bits above 32 set",
	on_terminal, REFUSED, "ENOTTY", subcode, TIOCLINUX | 1L << 32),
ROW("tioccons", "B", "take the console's output", on_terminal, REFUSED, NULL, NULL, TIOCCONS),
ROW("ldisc-gsm", "B", "line discipline n_gsm",
	on_terminal, REFUSED, NULL, &discipline[0], TIOCSETD),
ROW("ldisc-hdlc", "B", "line discipline n_hdlc",
	on_terminal, REFUSED, NULL, &discipline[1], TIOCSETD),
ROW("terminal-size", "B", "a harmless terminal request, which is legal",
	on_terminal, "done", "done", window, TIOCSWINSZ),
};
/* clang-format on */

const struct table tty_table = TABLE(rows);
