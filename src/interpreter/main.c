/* main.c - cordon-interpreter: runs code in kernels that keep state between calls. Inside cells.
 *
 *   serve   the server: E2B's interface on port 49999
 *   run     runs code from standard input in a context of the server
 *   ready   succeeds when the server can run Python at once */
#include <stdio.h>

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	(void)fprintf(stderr, "cordon-interpreter: not yet\n");
	return 2;
}
