#include "explain.h"

#include <stdio.h>
#include <string.h>

#include "host.h"
#include "path.h"
#include "show.h"

/* The question in its normal forms. */
struct asked {
	struct policy_target to;
	char host[HOST_MAX];
	struct policy_request request;
	char path[PATH_NORMAL_MAX], query[PATH_NORMAL_MAX];
};

static int read_path(const char *text, struct asked *a, struct err *e)
{
	size_t n = strcspn(text, "?");
	const char *why = NULL;

	if (strlen(text) > HTTP1_TARGET_MAX)
		return err_set(e, ERR_INVALID, "the path is too long");
	if (path_normal((struct http1_span){ text, n }, a->path, sizeof(a->path), &why) < 0)
		return err_set(e, ERR_INVALID, "a request with this path is never allowed: %s",
			       why);
	a->request.path = a->path;
	if (text[n] == '\0')
		return 0;
	text += n + 1;
	if (path_normal_query((struct http1_span){ text, strlen(text) }, a->query, sizeof(a->query),
			      &why) < 0)
		return err_set(e, ERR_INVALID, "a request with this query is never allowed: %s",
			       why);
	a->request.query = a->query;
	return 0;
}

static int read_question(const struct explain_question *q, struct asked *a, struct err *e)
{
	size_t n = strlen(q->host);

	a->to.port = q->port;
	a->request.tls = !q->plain;
	a->request.method = q->method;
	if (host_normal(q->host, n, a->host) == 0)
		a->to.host = a->host;
	else if (ip_read(q->host, n, &a->to.ip) < 0)
		return err_set(e, ERR_INVALID, "'%.80s' is neither a name nor an address", q->host);
	return read_path(q->path, a, e);
}

static void print_row(const char *stage, const char *what, const char *words,
		      const struct policy_answer *a)
{
	(void)printf("%-11s ", stage);
	show_text(what, stdout);
	(void)printf(": %s", words);
	if (a->verdict == POLICY_REFUSE) {
		(void)putchar(' ');
		show_text(a->reason, stdout);
	} else if (a->rule != NULL) {
		(void)fputs(" (", stdout);
		show_text(a->rule->name, stdout);
		(void)putchar(')');
	} else {
		(void)fputs(a->by_registry ? " (packages.registries; --package explains packages)"
					   : " (the default)",
			    stdout);
	}
	(void)putchar('\n');
}

static const char *connection_words(const struct policy_answer *a, bool plain)
{
	if (a->verdict == POLICY_REFUSE)
		return "refused:";
	if (a->verdict == POLICY_INSPECT)
		return plain ? "each request is checked"
			     : "each request is checked; TLS is terminated";
	if (a->rule == NULL || a->rule->raw)
		return "allowed; bytes of any kind are passed on";
	return "allowed; TLS is passed on after its name was checked";
}

/* A name that does not exist is not connected to. */
static bool explain_name(const struct policy *p, const struct asked *q)
{
	struct policy_answer a;

	if (q->to.host == NULL)
		return true;
	policy_name(p, q->to.host, &a);
	print_row("name", q->to.host, a.verdict == POLICY_REFUSE ? "does not exist:" : "exists",
		  &a);
	return a.verdict != POLICY_REFUSE;
}

static bool explain_address(const struct policy *p, const struct asked *q)
{
	if (q->to.host != NULL || policy_reachable(p, &q->to.ip))
		return true;
	(void)printf(
		"%-11s never connected to: it is %s, and the node's policy does not name it in "
		"\"private\"\n",
		"address", ip_kind_name(ip_kind(&q->to.ip)));
	return false;
}

int explain_print(const struct policy *p, const struct explain_question *q, struct err *e)
{
	static struct asked asked;
	char what[HOST_MAX + 80];
	struct policy_answer a;

	asked = (struct asked){ 0 };
	if (read_question(q, &asked, e) < 0)
		return -1;
	if (!explain_name(p, &asked) || !explain_address(p, &asked))
		return 0;
	policy_connect(p, &asked.to, &a);
	(void)snprintf(what, sizeof(what), "%s port %u", q->host, q->port);
	print_row("connection", what, connection_words(&a, q->plain), &a);
	if (a.verdict != POLICY_INSPECT)
		return a.verdict == POLICY_PERMIT;
	policy_ask(p, &asked.to, &asked.request, &a);
	(void)snprintf(what, sizeof(what), "%.30s %.200s", q->method, asked.path);
	print_row("request", what, a.verdict == POLICY_REFUSE ? "refused:" : "allowed", &a);
	return a.verdict == POLICY_PERMIT;
}
