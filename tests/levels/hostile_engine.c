/* hostile_engine.c - stands in QEMU's place with QEMU's descriptors, for test_engine_qemu.py: as if
 * a guest had taken QEMU over. The size of the guest's memory (-m) chooses what it does. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n"
#define RETURN "{\"return\": {}}\n"

static int control = -1;

static void say(const char *text)
{
	if (write(control, text, strlen(text)) < 0)
		_exit(1);
}

/* Each way to change a file behind a descriptor. Prints those that worked. */
static void attack(int fd)
{
	char path[64], byte = 'x';
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	int again = open(path, O_RDWR);
	const int ways[] = { fd, again };
	for (int i = 0; i < 2; i++) {
		int f = ways[i];
		void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);

		if (pwrite(f, &byte, 1, 0) == 1 || pwrite(f, &byte, 1, st.st_size) == 1)
			printf("WROTE %d.%d\n", fd, i);
		if (map != MAP_FAILED)
			printf("MAPPED %d.%d\n", fd, i);
		if (ftruncate(f, 0) == 0 || ftruncate(f, st.st_size * 2) == 0)
			printf("RESIZED %d.%d\n", fd, i);
		if (fallocate(f, 0x02 | 0x01, 0, 4096) == 0)
			printf("PUNCHED %d.%d\n", fd, i);
	}
	if (open(path, O_RDWR | O_TRUNC) >= 0 && fstat(fd, &st) == 0 && st.st_size == 0)
		printf("TRUNCATED %d\n", fd);
	/* a private change is what every clone makes, and must stay private */
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map != MAP_FAILED)
		map[0] = 'x';
	printf("tried %d\n", fd);
}

static void attack_all(void)
{
	for (int fd = 3; fd < 64; fd++)
		attack(fd);
	printf("done\n");
	(void)fflush(stdout);
}

static void flood(void)
{
	say(GREETING);
	for (int i = 0; i < 20000; i++)
		say("{\"event\": \"NOTHING\", \"data\": {}}\n");
	_exit(3);
}

int main(int argc, char **argv)
{
	unsigned long mode = 0;
	char line[1024];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i - 1], "-m") == 0)
			mode = strtoul(argv[i], NULL, 10);
		if (strncmp(argv[i], "socket,id=control,fd=", 21) == 0)
			control = (int)strtol(argv[i] + 21, NULL, 10);
	}
	memset(line, 'a', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	switch (mode) {
	case 1:
		attack_all();
		break;
	case 2:
		say("no document\n");
		break;
	case 3:
		for (int i = 0; i < 64; i++)
			say(line);
		break;
	case 4:
		say(GREETING GREETING);
		break;
	case 5:
		say(GREETING RETURN RETURN RETURN RETURN);
		break;
	case 6:
		flood();
		break;
	default:
		say(GREETING);
	}
	(void)pause();
	return 0;
}
