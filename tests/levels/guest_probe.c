/* guest_probe.c - /init of the guest in test_engine_qemu.py: no agent, only answers on the port.
 *
 * It counts all the time. A request is a line; each but `panic` and `off` is answered by a line:
 *	count		the counter, and the sum of the memory that `fill` took
 *	fill MIB	takes that much memory and writes a pattern
 *	add TEXT	adds the text to a file; the answer is the file
 *	random		16 bytes of /dev/urandom
 *	panic, off	ends the kernel; powers off */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static unsigned char *filled;
static size_t nfilled;

static void load_modules(void)
{
	struct dirent **list;
	int n = scandir("/modules", &list, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[300];

		(void)snprintf(path, sizeof(path), "/modules/%s", list[i]->d_name);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (list[i]->d_name[0] != '.' && syscall(SYS_finit_module, fd, "", 0) < 0)
			perror(path);
		(void)close(fd);
	}
}

static int open_port(void)
{
	int fd = -1;

	for (int i = 0; fd < 0 && i < 5000; i++) {
		fd = open("/dev/vport0p1", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			(void)usleep(1000);
	}
	return fd;
}

static unsigned long sum(void)
{
	unsigned long s = 0;

	for (size_t i = 0; i < nfilled; i += PAGE)
		s += filled[i];
	return s;
}

static void fill(size_t mib)
{
	nfilled = mib << 20;
	filled = mmap(NULL, nfilled, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; filled != MAP_FAILED && i < nfilled; i += PAGE)
		filled[i] = (unsigned char)(1 + i / PAGE % 200);
}

static void add(int port, const char *text)
{
	char all[512] = "";
	int fd = open("/file", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (write(fd, text, strlen(text)) > 0 && pread(fd, all, sizeof(all) - 1, 0) > 0)
		(void)dprintf(port, "%s\n", all);
	(void)close(fd);
}

static void random_bytes(int port)
{
	unsigned char b[16];
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	if (read(fd, b, sizeof(b)) == (ssize_t)sizeof(b))
		for (size_t i = 0; i < sizeof(b); i++)
			(void)dprintf(port, "%02x%s", b[i], i + 1 < sizeof(b) ? "" : "\n");
	(void)close(fd);
}

static void panic(void)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY | O_CLOEXEC);

	(void)!write(fd, "c", 1);
}

static void answer(int port, char *line, unsigned long count)
{
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "count") == 0) {
		(void)dprintf(port, "%lu %lu\n", count, sum());
	} else if (strncmp(line, "fill ", 5) == 0) {
		fill(strtoul(line + 5, NULL, 10));
		(void)dprintf(port, "filled\n");
	} else if (strncmp(line, "add ", 4) == 0) {
		add(port, line + 4);
	} else if (strcmp(line, "random") == 0) {
		random_bytes(port);
	} else if (strcmp(line, "panic") == 0) {
		panic();
	} else if (strcmp(line, "off") == 0) {
		(void)reboot(RB_POWER_OFF);
	}
}

int main(void)
{
	unsigned long count = 0;
	char line[512];

	(void)mkdir("/proc", 0755);
	(void)mkdir("/dev", 0755);
	(void)mount("dev", "/dev", "devtmpfs", 0, NULL);
	(void)mount("proc", "/proc", "proc", 0, NULL);
	load_modules();
	int port = open_port();
	(void)dprintf(port, "ready\n");
	for (;; count++) {
		struct pollfd p = { .fd = port, .events = POLLIN };

		if (poll(&p, 1, 5) <= 0 || (p.revents & POLLIN) == 0) {
			(void)usleep(1000);
			continue;
		}
		ssize_t n = read(port, line, sizeof(line) - 1);
		line[n > 0 ? n : 0] = '\0';
		answer(port, line, count);
	}
}
