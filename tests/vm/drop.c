/* drop.c - runs a program as an ordinary user: drop UID PROGRAM [ARGS]. busybox has nothing that
 * does just this. */
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned id = argc > 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

	if (id == 0 || setgroups(0, NULL) < 0 || setgid(id) < 0 || setuid(id) < 0)
		return 125;
	(void)execv(argv[2], argv + 2);
	return 127;
}
