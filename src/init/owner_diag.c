/* owner_diag.c - theory of operation
 *
 * One request for exactly these two addresses and ports: the kernel looks them up in its hash table
 * of connections, and has queued its answer when send(2) returns. If there is no such connection it
 * may find a socket that listens at the program's port instead; so the answer must have the same
 * addresses and ports, and the state of a connection. */
#include "owner_diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* Connected, or closing. Not: about to connect, listening, closed. */
#define CONNECTED                                                            \
	(1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | \
	 1U << TCP_CLOSE_WAIT | 1U << TCP_LAST_ACK | 1U << TCP_CLOSING)

struct request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

/* What the kernel answers; attributes may follow. */
struct reply {
	struct nlmsghdr head;
	union {
		struct inet_diag_msg found;
		struct nlmsgerr failed;
		uint8_t bytes[1024];
	} body;
};

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool is_v4(const uint8_t ip[16])
{
	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/* The kernel has IPv4 in the first of four words, unless the socket is one of IPv6. */
static void ip_to_words(const uint8_t ip[16], bool v4, __be32 ret[4])
{
	memset(ret, 0, 16);
	memcpy(ret, v4 ? ip + 12 : ip, v4 ? 4 : 16);
}

static void words_to_ip(const __be32 words[4], uint8_t family, uint8_t ret[16])
{
	memcpy(ret, mapped, sizeof(mapped));
	if (family == AF_INET)
		memcpy(ret + 12, words, 4);
	else
		memcpy(ret, words, 16);
}

static struct request request_for(const struct owner_question *q)
{
	bool v4 = is_v4(q->from) && is_v4(q->to);
	struct request r = {
		.head = { .nlmsg_len = sizeof(r),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.body = { .sdiag_family = v4 ? AF_INET : AF_INET6,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = ~0U,
			  .id = { .idiag_sport = htons(q->from_port),
				  .idiag_dport = htons(q->to_port),
				  .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } }
	};

	ip_to_words(q->from, v4, r.body.id.idiag_src);
	ip_to_words(q->to, v4, r.body.id.idiag_dst);
	return r;
}

static bool is_same(const struct inet_diag_msg *m, const struct owner_question *q)
{
	uint8_t from[16], to[16];

	words_to_ip(m->id.idiag_src, m->idiag_family, from);
	words_to_ip(m->id.idiag_dst, m->idiag_family, to);
	return m->idiag_state < 32 && (CONNECTED & 1U << m->idiag_state) != 0 &&
	       m->id.idiag_sport == htons(q->from_port) && m->id.idiag_dport == htons(q->to_port) &&
	       memcmp(from, q->from, 16) == 0 && memcmp(to, q->to, 16) == 0;
}

enum owner_result owner_diag_find(int diag, const struct owner_question *q, uint32_t *ret_inode,
				  uint32_t *ret_uid)
{
	struct request r = request_for(q);
	struct reply answer;
	ssize_t n;

	if (send(diag, &r, sizeof(r), MSG_DONTWAIT) < 0)
		return OWNER_UNSUPPORTED;
	n = recv(diag, &answer, sizeof(answer), MSG_DONTWAIT);
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(answer.body.failed)) &&
	    answer.head.nlmsg_type == NLMSG_ERROR)
		return answer.body.failed.error == -ENOENT ? OWNER_GONE : OWNER_UNSUPPORTED;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(answer.body.found)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return OWNER_UNSUPPORTED;
	/* A connection that no process has open any more has no inode. */
	if (!is_same(&answer.body.found, q) || answer.body.found.idiag_inode == 0)
		return OWNER_GONE;
	*ret_inode = answer.body.found.idiag_inode;
	*ret_uid = answer.body.found.idiag_uid;
	return OWNER_FOUND;
}
