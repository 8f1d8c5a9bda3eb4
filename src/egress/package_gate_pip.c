/* package_gate_pip.c - a page for pip in a session whose packages are off.
 *
 * pip shows nothing of a refused page: only "No matching distribution found". So it gets a page
 * with one file, whose version spells the reason in the letters that a version may have. pip either
 * asks for the file, and prints the refusal, or finds that the version does not fit, and prints it.
 * Such a version begins in a way that tells it from a real one: records leave it out. */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_file.h"

#define PAGE_MAX ((size_t)4096)
#define REASON_MAX 100U

struct page {
	struct buf text;
	size_t at;
};

#define INVENTED "0+cordon."

bool package_gate_is_invented(const struct package_gate *g)
{
	return g->request.ecosystem == ECO_PYPI && g->result == PACKAGE_REFUSED &&
	       strncmp(g->request.version, INVENTED, strlen(INVENTED)) == 0;
}

/* "packages are off" as "0+cordon.packages.are.off". */
static void spell(const char *reason, char *ret, size_t cap)
{
	size_t n = (size_t)snprintf(ret, cap, INVENTED);

	for (; *reason != '\0' && n + 2 < cap; reason++) {
		bool word =
			(*reason >= 'a' && *reason <= 'z') || (*reason >= '0' && *reason <= '9');

		if (word)
			ret[n++] = *reason;
		else if (ret[n - 1] != '.' && ret[n - 1] != '+')
			ret[n++] = '.';
	}
	while (ret[n - 1] == '.')
		n--;
	ret[n] = '\0';
}

static void write_page(struct buf *b, const struct package_gate *g, bool json)
{
	char version[REASON_MAX], name[PACKAGE_NAME_MAX];

	spell(g->answer.reason, version, sizeof(version));
	(void)snprintf(name, sizeof(name), "%s", g->request.name);
	for (char *c = name; *c != '\0'; c++)
		if (*c == '-')
			*c = '_';
	if (json)
		buf_printf(b,
			   "{\"meta\":{\"api-version\":\"1.0\"},\"name\":\"%s\",\"files\":[{"
			   "\"filename\":\"%s-%s-py3-none-any.whl\",\"hashes\":{},"
			   "\"url\":\"../../packages/%s-0%%2B%s-py3-none-any.whl\"}]}",
			   g->request.name, name, version, name, version + 2);
	else
		buf_printf(b,
			   "<!DOCTYPE html><html><body><a href=\"../../packages/"
			   "%s-0%%2B%s-py3-none-any.whl\">%s-%s-py3-none-any.whl</a></body></html>",
			   name, version + 2, name, version);
}

static ssize_t produce(void *arg, uint8_t *ret, size_t cap)
{
	struct page *p = arg;
	size_t n = p->text.len - p->at < cap ? p->text.len - p->at : cap;

	memcpy(ret, p->text.data + p->at, n);
	p->at += n;
	return (ssize_t)n;
}

static void release(void *arg)
{
	struct page *p = arg;

	buf_release(&p->text);
	free(p);
}

void package_gate_pip_page(struct package_gate *g, bool json)
{
	struct page *p = calloc(1, sizeof(*p));
	struct err e;

	if (p == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	buf_init(&p->text, PAGE_MAX);
	write_page(&p->text, g, json);
	if (buf_check(&p->text, &e) < 0) {
		release(p);
		package_gate_fail(g, 503, e.msg);
		return;
	}
	g->result = PACKAGE_REFUSED;
	(void)snprintf(g->rule, sizeof(g->rule), "%s", g->answer.rule);
	gateway_set_reason(g->x, g->answer.reason);
	gateway_defer(g->x);
	gateway_file_serve(
		g->x, &(struct gateway_content){
			      .type = json ? "application/vnd.pypi.simple.v1+json" : "text/html",
			      .fd = -1,
			      .produce = produce,
			      .release = release,
			      .arg = p });
}
