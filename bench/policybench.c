/* policybench.c - what one decision of a policy costs, with 10 and 1,000 rules, where the last rule
 * is the one that matches. Prints a line for each kind: rules, kind,
 * nanoseconds of processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/policy/policy.h"

#define TEXT_MAX (1U << 20)

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* '#' is the number, '@' and '&' its higher and lower byte. */
static size_t write_rule(char *to, size_t cap, const char *format, int i)
{
	size_t len = 0;

	for (const char *at = format; *at != '\0' && len + 16 < cap; at++) {
		int value = *at == '@' ? i / 256 : *at == '&' ? i % 256 : i;

		if (strchr("#@&", *at) != NULL)
			len += (size_t)snprintf(to + len, cap - len, "%d", value);
		else
			to[len++] = *at;
	}
	return len;
}

static struct policy *make(const char *format, int n)
{
	OWN_MEM char *text = malloc(TEXT_MAX);
	struct policy *p = NULL;
	struct err e = { 0 };
	size_t len;

	if (text == NULL)
		abort();
	len = (size_t)snprintf(text, TEXT_MAX, "{\"version\":1,\"rules\":[");
	for (int i = 0; i < n; i++) {
		len += write_rule(text + len, TEXT_MAX - len, format, i);
		text[len++] = i + 1 < n ? ',' : ']';
	}
	text[len++] = '}';
	if (policy_read(text, len, POLICY_SESSION, &p, &e) < 0) {
		(void)fprintf(stderr, "policybench: %s\n", e.msg);
		exit(1);
	}
	return p;
}

static void measure(const char *kind, const char *format, int n, struct policy_target to,
		    const char *path)
{
	const struct policy_request q = { .tls = true, .method = "GET", .path = path };
	struct policy *p = make(format, n);
	struct policy_answer a;
	const int rounds = 20000;
	int64_t before = now_ns();

	for (int i = 0; i < rounds; i++) {
		if (path != NULL)
			policy_ask(p, &to, &q, &a);
		else
			policy_connect(p, &to, &a);
		if (a.verdict == POLICY_REFUSE || a.rule == NULL || (int)a.rule->number != n - 1) {
			(void)fprintf(stderr, "policybench: %s: %s\n", kind, a.reason);
			exit(1);
		}
	}
	(void)printf("%5d rules, %-34s %6lld ns\n", n, kind,
		     (long long)((now_ns() - before) / rounds));
	policy_free(p);
}

int main(void)
{
	static const int sizes[] = { 10, 1000 };

	for (size_t i = 0; i < COUNT(sizes); i++) {
		char host[64], path[64], below[80];
		int n = sizes[i];
		struct policy_target to = { .host = host, .port = 443 };
		struct policy_target address = { .port = 443 };

		(void)snprintf(host, sizeof(host), "h%d.example.com", n - 1);
		(void)snprintf(below, sizeof(below), "a.b.h%d.example.com", n - 1);
		(void)snprintf(path, sizeof(path), "/v1/%d/some/thing", n - 1);
		measure("one host each, connection", "\"h#.example.com\"", n, to, NULL);
		measure("one host each, request", "\"h#.example.com/v1/#/**\"", n, to, path);
		to.host = below;
		measure("*.host each, connection", "\"*.h#.example.com\"", n, to, NULL);
		to.host = "example.com";
		measure("all for one host, request", "\"example.com/v1/#/**\"", n, to, path);
		(void)snprintf(path, sizeof(path), "93.%d.%d.1", (n - 1) / 256, (n - 1) % 256);
		if (ip_read(path, strlen(path), &address.ip) < 0)
			return 1;
		measure("one cidr each, connection", "\"93.@.&.0/24\"", n, address, NULL);
	}
	return 0;
}
