#include "owner_answer.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress_open.h"
#include "guest_life.h"
#include "io.h"
#include "owner_msg.h"
#include "shim.h"

#define QUESTIONS 64 /* in a turn */

static int sock = -1;
static struct loop_fd ready = { .fd = -1 };

static void answer(const struct owner_question *q)
{
	uint64_t mark = egress_open_mark(q->from_port);
	struct owner_answer a = { .id = q->id, .result = OWNER_FOUND, .mark = mark };

	if (mark == 0 || mark > OWNER_MARK_MAX) {
		a.mark = 0;
		a.result = guest_life_shares_network() ? OWNER_UNSUPPORTED : OWNER_GONE;
	}
	IGNORED(send(sock, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL), "an answer may be lost");
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	uint8_t bytes[sizeof(struct owner_question) + 1];
	struct owner_question q;
	struct err e;

	(void)f;
	(void)events;
	for (int i = 0; i < QUESTIONS; i++) {
		ssize_t n = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n < 0)
			return;
		if (n == 0) {
			owner_answer_listen(-1);
			return;
		}
		if (owner_question_read(bytes, (size_t)n, &q, &e) == 0)
			answer(&q);
	}
}

void owner_answer_listen(int fd)
{
	struct err e;

	loop_remove(shim_loop, &ready);
	io_close_all(&sock, 1);
	sock = fd;
	ready.on_ready = on_ready;
	if (fd >= 0 && loop_add(shim_loop, &ready, fd, EPOLLIN, &e) < 0)
		io_close_all(&sock, 1);
}
