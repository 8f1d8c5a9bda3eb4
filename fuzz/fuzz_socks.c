/* What a SOCKS5 proxy is asked for (one byte), then what it replies: it is read in the pieces that
 * were asked for, never more than there is room for; nothing is said but the three messages, user
 * and password only if the proxy chose that; and it ends connected, refused or waiting. */
#include "fuzz.h"

#include "lib/outbound/outbound_socks.h"

unsigned long fuzz_accepted;

static const struct policy_proxy open_proxy = { .host = "proxy.example", .port = 1080 };
static const struct policy_proxy password_proxy = {
	.host = "proxy.example", .port = 1080, .user = "me", .password = "secret"
};

static void check_said(const struct outbound_socks *s, bool password, bool chosen)
{
	assert(s->nout <= sizeof(s->out) && s->sent <= s->nout && s->want <= sizeof(s->in));
	if (s->nout == 0)
		return;
	assert(s->out[0] == 5 || (s->out[0] == 1 && password && chosen));
	assert((memmem(s->out, s->nout, "secret", 6) != NULL) == (s->out[0] == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_target to = { .port = 443 };
	bool password = size > 0 && (data[0] & 1) != 0, chosen = false;
	struct outbound_socks s;
	struct err e = { 0 };
	size_t at = 1;

	if (size > 0 && (data[0] & 2) != 0)
		to.host = "a.example";
	assert(outbound_socks_init(&s, password ? &password_proxy : &open_proxy, &to, &e) == 0);
	while (at < size && s.step != OUTBOUND_SOCKS_DONE) {
		bool method = s.step == OUTBOUND_SOCKS_METHOD;

		check_said(&s, password, chosen);
		assert(s.want > 0);
		if (size - at < s.want)
			break;
		memcpy(s.in, data + at, s.want);
		at += s.want;
		chosen = chosen || (method && s.in[1] == 2);
		if (outbound_socks_take(&s, &e) < 0) {
			assert(e.code == ERR_SYSTEM && e.msg[0] != '\0');
			break;
		}
	}
	fuzz_accepted += s.step == OUTBOUND_SOCKS_DONE;
	outbound_socks_clear(&s);
	assert(memmem(&s, sizeof(s), "secret", 6) == NULL);
	return 0;
}
