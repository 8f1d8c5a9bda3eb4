#include "cmd/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		return;
	*ret_rows = size.ws_row;
	*ret_cols = size.ws_col;
}

/* Make the terminal raw, if standard input is one. `master` is a PTY that terminal_resize()
 * keeps at the same size. -1: none. */
int terminal_start(struct terminal *t, int master, struct err *e)
{
	struct termios raw;

	t->master = master;
	if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return 0; /* input comes from elsewhere */
	raw = t->saved;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return err_sys(e, "terminal");
	t->raw = true;
	return 0;
}

void terminal_resize(const struct terminal *t)
{
	struct winsize size;

	if (t->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(t->master, TIOCSWINSZ, &size);
}

void terminal_stop(struct terminal *t)
{
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
	t->master = -1;
}
