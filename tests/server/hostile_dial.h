/* hostile_dial.h - a PID 1 that was taken over, asked for a connection to a port: what it hands out
 * instead, by the number of the port. Part of hostile_init.c. */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/wire/agent_msg.h"
#include "lib/base/io.h"

/* A connection of our own; ours[0] is to be handed out. */
static bool dial_pair(int ours[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	ours[0] = socket(AF_INET, SOCK_STREAM, 0);
	(void)ioctl(l, SIOCSIFFLAGS, &lo);
	if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (struct sockaddr *)&a, &len) < 0 ||
	    connect(ours[0], (struct sockaddr *)&a, sizeof(a)) < 0)
		return false;
	ours[1] = accept4(l, NULL, NULL, 0);
	(void)close(l);
	return ours[1] >= 0;
}

static int dial_socket(int domain, int type)
{
	return socket(domain, type, 0);
}

static void dial_send(int channel, uint32_t handle, int32_t sys, const int *fds, size_t n)
{
	struct agent_event v = { .handle = handle, .sys = sys };
	uint8_t bytes[FRAME_HEAD + sizeof(v)];
	struct err e;

	frame_head(bytes, AGENT_DIALED, sizeof(v));
	memcpy(bytes + FRAME_HEAD, &v, sizeof(v));
	IGNORED(io_send(channel, bytes, sizeof(bytes), fds, n, &e), "it is gone, then");
}

/* A connection that blocks whoever forgets to say that he will not wait: nobody reads at its other
 * end, the flag is taken away again and again, and close(2) is to linger. */
static void dial_blocking(int channel, uint32_t handle)
{
	const struct linger wait = { .l_onoff = 1, .l_linger = 100 };
	int pair[2];

	if (!dial_pair(pair))
		return;
	dial_send(channel, handle, 0, pair, 1);
	if (fork() != 0)
		return;
	for (int i = 0; i < 3000; i++) {
		(void)fcntl(pair[0], F_SETFL, O_RDWR | O_ASYNC);
		(void)setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
		(void)usleep(1000);
	}
	_exit(0);
}

/* One answer more than was asked for, each with another connection; and one for nobody. */
static void dial_often(int channel, uint32_t handle)
{
	for (int i = 0; i < 20; i++) {
		int pair[2];

		if (dial_pair(pair))
			dial_send(channel, i == 19 ? 0xfffffff0U : handle, 0, pair, 1);
	}
}

static void dial_hostile(int channel, uint32_t handle, uint16_t port)
{
	int fds[3] = { -1, -1, -1 };
	size_t n = 1;

	switch (port) {
	case 1: /* a file */
		fds[0] = memfd_create("file", 0);
		break;
	case 2: /* a socket of the machine's own kind */
		(void)socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
		break;
	case 3:
		fds[0] = dial_socket(AF_INET, SOCK_DGRAM);
		break;
	case 4: /* one that listens */
		fds[0] = dial_socket(AF_INET, SOCK_STREAM);
		(void)listen(fds[0], 1);
		break;
	case 5: /* our way to the outside */
		fds[0] = channel;
		break;
	case 6:
		n = 0;
		break;
	case 7:
		fds[0] = fds[1] = fds[2] = memfd_create("file", 0);
		n = 3;
		break;
	case 8: /* never connected, and never will be */
		fds[0] = dial_socket(AF_INET, SOCK_STREAM);
		break;
	case 9:
		dial_blocking(channel, handle);
		return;
	case 10:
		dial_often(channel, handle);
		return;
	case 11: /* a lie about why */
		dial_send(channel, handle, 0x7fffffff, NULL, 0);
		return;
	case 12:
		dial_send(channel, handle, -5, NULL, 0);
		return;
	case 13:
		fds[0] = open("/", O_PATH);
		break;
	default: /* never */
		return;
	}
	dial_send(channel, handle, 0, fds, n);
}
