/* A reply to a query of ours for "a.example": up to the first byte the type, then the message. What
 * is taken for an answer has our id and question, bounded addresses, and a name at the end. */
#include "fuzz.h"

#include "lib/outbound/dns_msg.h"

unsigned long fuzz_accepted;

static void check(const struct dns_msg_reply *r, uint16_t type)
{
	assert(r->n <= DNS_MSG_ADDRESSES && r->hops <= DNS_MSG_HOPS && r->rcode < 16);
	assert(r->ttl <= INT32_MAX);
	assert(memchr(r->alias, '\0', sizeof(r->alias)) != NULL);
	assert(r->hops > 0 || r->alias[0] == '\0');
	assert(r->n == 0 || (r->rcode == DNS_MSG_OK && !r->truncated));
	for (size_t i = 0; i < r->n; i++)
		assert(type != DNS_MSG_A ||
		       memcmp(r->ips[i].b, "\0\0\0\0\0\0\0\0\0\0\377\377", 12) == 0);
	for (const char *p = r->alias; *p != '\0'; p++)
		assert(*p > ' ' && *p < 127 && !(*p >= 'A' && *p <= 'Z'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t mix[32] = { 0x55, 0xAA };
	uint16_t type = size > 0 && data[0] & 1 ? DNS_MSG_AAAA : DNS_MSG_A;
	uint8_t query[DNS_MSG_QUERY_MAX], *msg;
	size_t n = dns_msg_ask(query, 0x4142, "a.example", type, mix);
	struct dns_msg_reply r;

	if (size == 0)
		return 0;
	msg = fuzz_copy(data + 1, size - 1);
	if (dns_msg_read_reply(msg, size - 1, query, n, &r) == DNS_MSG_ANSWER) {
		assert(size - 1 >= n && memcmp(msg, query, 2) == 0);
		assert(memcmp(msg + DNS_MSG_HEAD, query + DNS_MSG_HEAD, n - DNS_MSG_HEAD) == 0);
		check(&r, type);
		fuzz_accepted += r.n > 0;
	}
	free(msg);
	return 0;
}
