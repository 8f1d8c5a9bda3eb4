#include "egress/gateway/deny_page.h"

#include <stdio.h>
#include <string.h>

#include "lib/json/json.h"

#define REASON_MAX 512
#define PHRASE_MAX 160 /* bytes of a reason in the status line, without NUL */

/* A browser and curl do not name JSON, so they get text. */
bool deny_page_wants_json(const struct http1_header *headers, size_t n)
{
	struct http1_span accept;

	if (http1_find(headers, n, "accept", &accept) == 0)
		return false;
	return memmem(accept.p, accept.n, "json", 4) != NULL;
}

/* Replace bytes of the reason that cannot be in a header, and cut it at REASON_MAX. */
static void make_clean(const char *reason, char ret[REASON_MAX])
{
	size_t n = 0;

	for (; n < REASON_MAX - 1 && reason[n]; n++) {
		ret[n] = reason[n];
		if (reason[n] < 0x20 || reason[n] >= 0x7f)
			ret[n] = '?';
	}
	while (n > 0 && ret[n - 1] == ' ')
		n--;
	ret[n] = '\0';
}

/* A client of packages gets one member "error" with the reason, since it shows no other. */
static void write_json(const struct deny_page *r, const char *reason, char *ret, size_t cap)
{
	struct json j;

	json_init(&j, ret, cap);
	json_open(&j, NULL, '{');
	if (r->package) {
		json_text(&j, "error", reason);
		json_close(&j, '}');
		return;
	}
	json_text(&j, "error", r->denied ? "denied" : "failed");
	json_text(&j, "reason", reason);
	if (r->rule)
		json_text(&j, "rule", r->rule);
	json_close(&j, '}');
}

static void write_text(const struct deny_page *r, const char *reason, char *ret, size_t cap)
{
	if (r->denied && !r->package)
		(void)snprintf(ret, cap,
			       "%s%s%s%s\n\nThe network policy of this session does not allow this "
			       "request. Repeating it, or sending it another way, will not help. "
			       "A rule for this host, or a preset that has one, allows it: 'cordon "
			       "net SESSION' shows what was refused, 'cordon policy presets' lists "
			       "the presets.\n",
			       reason, r->rule ? " (rule: " : "", r->rule ? r->rule : "",
			       r->rule ? ")" : "");
	else
		(void)snprintf(ret, cap, "%s\n", reason);
}

/* The head names the reason three times for different readers: the status line for clients of
 * packages, a header for programs, the body for people. */
void deny_page_write(struct buf *b, const struct deny_page *r)
{
	char reason[REASON_MAX], phrase[PHRASE_MAX + 1], body[2048];

	make_clean(r->reason, reason);
	(void)snprintf(phrase, sizeof(phrase), "%.160s",
		       r->package && reason[0] ? reason : http1_reason(r->status));
	if (r->json)
		write_json(r, reason, body, sizeof(body));
	else
		write_text(r, reason, body, sizeof(body));
	buf_printf(b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", r->status,
		   phrase, r->json ? "application/json" : "text/plain", strlen(body));
	if (reason[0])
		buf_printf(b, "%s: %s\r\n", r->denied ? "X-Cordon-Denied" : "X-Cordon-Failed",
			   reason);
	buf_put_text(b, "Cache-Control: no-store\r\n");
	buf_put_text(b, r->close ? "Connection: close\r\n\r\n" : "\r\n");
	if (!r->bodiless)
		buf_put_text(b, body);
}
