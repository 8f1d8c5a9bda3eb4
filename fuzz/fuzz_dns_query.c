/* A message of a cell, answered by a policy with one name and a pattern: answers belong to their
 * query, are short, hold no address but a synthetic one or loopback, and none for what is not
 * allowed. */
#include "fuzz.h"

#include "egress/dns/dns.h"
#include "lib/outbound/dns_msg.h"
#include "lib/policy/host.h"
#include "egress/dns/synthetic_names.h"
#include "egress/control/access_record.h"

unsigned long fuzz_accepted;

static int allowed;
static unsigned records;

/* Each query is asked both ways. */
static bool answers_refused;

bool policy_answers_refused(const struct policy *p)
{
	return answers_refused;
}

void policy_name(const struct policy *p, const char *host, struct policy_answer *ret)
{
	char normal[HOST_MAX];
	size_t n = strlen(host);

	assert(host_normal(host, n, normal) == 0 && strcmp(normal, host) == 0);
	allowed = strcmp(host, "allowed.example") == 0 ||
		  (n > 5 && strcmp(host + n - 5, ".wild") == 0);
	*ret = (struct policy_answer){ .verdict = allowed ? POLICY_INSPECT : POLICY_REFUSE };
}

void access_record_send(struct egress_session *session, const struct access_record *r)
{
	records++;
	assert(r->kind == ACCESS_RECORD_DNS && r->reason);
	for (const char *p = r->name ? r->name : ""; *p != '\0'; p++)
		assert(*p > ' ' && *p < 127);
}

static void check_answer(struct egress_session *session, const uint8_t *query, size_t len,
			 const uint8_t *out, size_t n)
{
	struct dns_msg_query q;
	struct dns_msg_reply r;
	size_t asked;

	assert(n >= DNS_MSG_HEAD && n <= DNS_MSG_UDP && memcmp(out, query, 2) == 0);
	assert(out[2] & 0x80 && !(query[2] & 0x80) && !(out[2] & 2));
	if (dns_msg_read_query(query, len, &q) != DNS_MSG_OK) {
		assert(out[7] == 0 && out[9] == 0);
		return;
	}
	asked = DNS_MSG_HEAD + q.question_len;
	assert(memcmp(out + DNS_MSG_HEAD, query + DNS_MSG_HEAD, q.question_len) == 0);
	if (query[2] & 0x78)
		return;
	/* As our own resolver reads it. */
	assert(dns_msg_read_reply(out, n, query, asked, &r) == DNS_MSG_ANSWER);
	assert(r.n <= 1 && r.hops == 0 && out[7] <= 1);
	fuzz_accepted += out[7] == 1;
	if (r.n == 0)
		return;
	assert((r.ttl == 60 || (answers_refused && r.ttl == 5)) &&
	       (q.type == DNS_MSG_A || q.type == DNS_MSG_AAAA));
	if (synthetic_names_is_synthetic(&r.ips[0]))
		assert((allowed || answers_refused) &&
		       synthetic_names_find(session->names, &r.ips[0]));
	else
		assert(ip_kind(&r.ips[0]) == IP_LOOPBACK);
}

static void answer(const uint8_t *data, size_t size)
{
	struct egress_session session = { .names = synthetic_names_new() };
	uint8_t *query = fuzz_copy(data, size), out[DNS_TEXT_MAX];
	struct ip v4, v6;
	size_t n;

	assert(session.names &&
	       synthetic_names_give(session.names, "allowed.example", &v4, &v6) == 0);
	allowed = 0;
	records = 0;
	n = dns_answer(&session, query, size, true, out);
	assert(records <= 1);
	if (n > 0)
		check_answer(&session, query, size, out, n);
	free(session.dns);
	synthetic_names_free(session.names);
	free(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	answers_refused = false;
	answer(data, size);
	answers_refused = true;
	answer(data, size);
	return 0;
}
