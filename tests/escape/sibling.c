/* sibling.c - the neighbour. Runs in a cell of its own beside the probe's, holds one of each object
 * a neighbour might reach, says what it holds, and waits until its standard input ends. Then it
 * says whether anybody came: a connection on a listener, or an object that changed or is gone. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const namespaces[] = { "user", "mnt", "pid",	   "net",
					  "ipc",  "uts", "cgroup", "time" };
static const char content[] = "sibling canary";

enum { ABSTRACT, TCP4, TCP6, UDP4, LISTENERS, WAIT_MS = 180000 };

static int listen_abstract(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, name, len);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0)
		return -1;
	return listen(fd, 4) < 0 ? -1 : fd;
}

static int listen_inet(int family, int type, int port)
{
	struct sockaddr_in sa4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 sa6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int one = 1, fd = socket(family, type | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -1;
	if (family == AF_INET6) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		rc = bind(fd, (struct sockaddr *)&sa6, sizeof(sa6));
	} else {
		rc = bind(fd, (struct sockaddr *)&sa4, sizeof(sa4));
	}
	if (rc < 0)
		return -1;
	return type == SOCK_STREAM && listen(fd, 4) < 0 ? -1 : fd;
}

static int put_file(const char *dir)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, world("sibling-name"));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	return write(fd, content, sizeof(content)) == sizeof(content) ? 0 : -1;
}

static int file_is_whole(const char *dir)
{
	char path[256], buf[64];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, world("sibling-name"));
	return slurp(path, buf, sizeof(buf)) == sizeof(content) && strcmp(buf, content) == 0;
}

static void say(const char *what, int ok)
{
	(void)printf("%s\t%s\n", ok ? "holds" : "lacks", what);
}

static void say_namespaces(void)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
		unsigned long long ns = 0;

		(void)namespace_inode(namespaces[i], &ns);
		(void)printf("ns\t%s\t%llu\n", namespaces[i], ns);
	}
}

int sibling_main(void)
{
	static const char *const names[] = { "abstract", "tcp4", "tcp6", "udp4" };
	struct pollfd p[LISTENERS + 1];
	int port = (int)world_num("sibling-port"), shm, tmp, dev;
	char *mem = NULL, byte;

	p[ABSTRACT].fd = listen_abstract(world("sibling-abstract"));
	p[TCP4].fd = listen_inet(AF_INET, SOCK_STREAM, port);
	p[TCP6].fd = listen_inet(AF_INET6, SOCK_STREAM, port);
	p[UDP4].fd = listen_inet(AF_INET, SOCK_DGRAM, port);
	p[LISTENERS].fd = 0;
	for (int i = 0; i < LISTENERS; i++)
		say(names[i], p[i].fd >= 0);
	say("tmp", (tmp = put_file("/tmp") == 0));
	say("shm-file", (dev = put_file("/dev/shm") == 0));
	shm = shmget((key_t)world_num("sibling-sysv-key"), 4096, IPC_CREAT | IPC_EXCL | 0666);
	if (shm >= 0 && (mem = shmat(shm, NULL, 0)) != (void *)-1)
		memcpy(mem, content, sizeof(content));
	say("sysv", shm >= 0);
	say("mqueue", syscall(SYS_mq_open, world("sibling-mqueue"),
			      (long)(O_RDWR | O_CREAT | O_EXCL), 0666L, NULL) >= 0);
	say_namespaces();
	(void)printf("ready\n");
	(void)fflush(stdout);

	for (int i = 0; i <= LISTENERS; i++)
		p[i].events = POLLIN;
	while (poll(p, LISTENERS + 1, WAIT_MS) > 0) {
		for (int i = 0; i < LISTENERS; i++)
			if (p[i].revents) {
				(void)printf("touched\t%s\n", names[i]);
				p[i].fd = -1; /* once is enough */
			}
		if (p[LISTENERS].revents && read(0, &byte, 1) <= 0)
			break;
	}
	if ((tmp && !file_is_whole("/tmp")) || (dev && !file_is_whole("/dev/shm")))
		(void)printf("touched\tfile\n");
	if (shm >= 0 && mem && strcmp(mem, content) != 0)
		(void)printf("touched\tsysv\n");
	(void)printf("end\n");
	return 0;
}
