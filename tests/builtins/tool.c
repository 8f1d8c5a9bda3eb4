/* tool.c - the built-ins of cordon-init as a program, for tests on an ordinary file system. */
#include "cell/init/files/builtin.h"

int main(int argc, char **argv)
{
	return builtin_main(argc - 1, argv + 1);
}
