/* flow_connect.c - CONNECT of the explicit proxy. Its head is taken out of the socket to the byte:
 * what a program sent behind it, not waiting for the answer, is the first of the tunnel, and is
 * looked at as that of any other connection. The answer is "200" before anything is connected:
 * what is said in the tunnel decides, and is answered in its own language. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "flow_inside.h"
#include "deny_page.h"

static void answer(struct flow *f, int status, bool denied, const char *reason, bool json)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);

	deny_page_write(&b,
			&(struct deny_page){ .status = status,
					     .denied = denied,
					     .reason = reason,
					     .rule = f->answer.rule ? f->answer.rule->name : NULL,
					     .json = json,
					     .close = true });
	/* The first bytes we ever send on it: there is room. */
	(void)send(f->fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(f->fd, SHUT_WR);
	buf_release(&b);
	flow_record(f, false, reason);
	flow_end(f, false);
}

/* The head is there: all of it is taken out of the socket. */
static bool take_head(struct flow *f, size_t n)
{
	static char head[FLOW_HEAD_MAX];

	return recv(f->fd, head, n, MSG_DONTWAIT) == (ssize_t)n;
}

static void open_tunnel(struct flow *f, bool json)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	char why[POLICY_REASON_MAX];
	int low = 1;

	f->door = false;
	flow_judge(f);
	if (f->answer.verdict == POLICY_REFUSE) {
		memcpy(why, f->answer.reason, sizeof(why));
		answer(f, 403, true, why, json);
		return;
	}
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	f->seen = 0;
	if (send(f->fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(ok) - 1) {
		flow_end(f, true);
		return;
	}
	if (flow_is_raw(f)) {
		loop_remove(f->session->egress->loop, &f->watch);
		loop_timer_cancel(f->session->egress->loop, &f->timer);
		f->scheme = "tcp";
		flow_pass(f);
	} /* else the watch goes on, and looks at what comes */
}

void flow_connect(struct flow *f, const char *bytes, size_t len)
{
	struct http1_fault fault = { 0 };
	struct http1_request r;
	int n = http1_request_read(bytes, len, &r, &fault);
	const char *why = fault.words;
	bool json;

	if (n == 0 && len < FLOW_HEAD_MAX) {
		flow_wait_more(f, len);
		return;
	}
	if (n <= 0) {
		(void)take_head(f, len);
		answer(f, n == 0 ? 431 : fault.status, false,
		       n == 0 ? "the head of the request is too long" : why, false);
		return;
	}
	json = deny_page_wants_json(r.headers, r.headers_n);
	if (endpoint_read(f->session, r.authority, 0, &f->endpoint, &why) < 0) {
		f->endpoint = (struct endpoint){ .by_name = true };
		(void)take_head(f, (size_t)n);
		answer(f, 400, false, why, json);
		return;
	}
	if (!take_head(f, (size_t)n)) {
		flow_end(f, true);
		return;
	}
	open_tunnel(f, json);
}
