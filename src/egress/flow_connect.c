/* flow_connect.c - theory of operation
 *
 * The head of CONNECT is taken out of the socket to the byte: what a program sent after it without
 * waiting for the answer are the first bytes of the tunnel, and flow_sniff.c reads them like those
 * of any other connection. The answer is "200" before egress connects anywhere: the first bytes of
 * the tunnel decide, and a refusal is sent in the protocol of the tunnel. */
#include "flow_connect.h"

#include <string.h>
#include <sys/socket.h>

#include "deny_page.h"

static enum flow_connect answer(struct flow *f, int status, bool denied, const char *reason,
				bool json)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);

	deny_page_write(&b,
			&(struct deny_page){ .status = status,
					     .denied = denied,
					     .reason = reason,
					     .rule = f->answer.rule ? f->answer.rule->name : NULL,
					     .json = json,
					     .close = true });
	/* The first bytes that egress sends on it: the socket has room. */
	(void)send(f->fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(f->fd, SHUT_WR);
	buf_release(&b);
	flow_record(f, false, reason);
	flow_end(f, false);
	return FLOW_CONNECT_ENDED;
}

/* Takes a complete head out of the socket. */
static bool take_head(struct flow *f, size_t n)
{
	static char head[FLOW_HEAD_MAX];

	return recv(f->fd, head, n, MSG_DONTWAIT) == (ssize_t)n;
}

static enum flow_connect open_tunnel(struct flow *f, bool json)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	char why[POLICY_REASON_MAX];
	int low = 1;

	f->to_proxy = false;
	flow_judge(f);
	if (f->answer.verdict == POLICY_REFUSE) {
		memcpy(why, f->answer.reason, sizeof(why));
		return answer(f, 403, true, why, json);
	}
	(void)setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	f->seen = 0;
	if (send(f->fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(ok) - 1) {
		flow_end(f, true);
		return FLOW_CONNECT_ENDED;
	}
	return FLOW_CONNECT_TUNNEL;
}

enum flow_connect flow_connect(struct flow *f, const char *bytes, size_t len)
{
	struct http1_fault fault = { 0 };
	struct http1_request r;
	int n = http1_request_read(bytes, len, &r, &fault);
	const char *why = fault.words;
	bool json;

	if (n == 0 && len < FLOW_HEAD_MAX)
		return FLOW_CONNECT_MORE;
	if (n <= 0) {
		(void)take_head(f, len);
		return answer(f, n == 0 ? 431 : fault.status, false,
			      n == 0 ? "the head of the request is too long" : why, false);
	}
	json = deny_page_wants_json(r.headers, r.headers_n);
	if (endpoint_read(f->session->names, r.authority, 0, &f->endpoint, &why) < 0) {
		f->endpoint = (struct endpoint){ .by_name = true };
		(void)take_head(f, (size_t)n);
		return answer(f, 400, false, why, json);
	}
	if (!take_head(f, (size_t)n)) {
		flow_end(f, true);
		return FLOW_CONNECT_ENDED;
	}
	return open_tunnel(f, json);
}
