#include "template_interpreter.h"

#include <stdio.h>
#include <string.h>

#include "member.h"

#define NAME_SIZE 256
#define SUITE "bookworm"
#define PROGRAM "/opt/cordon/bin/cordon-interpreter"
#define PACKAGES                                                                   \
	"python3,python3-ipython,python3-numpy,python3-pandas,python3-matplotlib," \
	"python3-pil,python3-scipy,python3-sympy,python3-pip,python3-requests"

/* The Debian below; its name is that of the template with "-debian". */
static int make_debian(struct api_call *a, const struct template_interpreter *t, const char *name,
		       char ret_from[NAME_SIZE], struct err *e)
{
	char base[NAME_SIZE + 8], packages[4096];
	const struct template_import import = { .name = base };
	OWN_JSON *made = NULL;

	(void)snprintf(base, sizeof(base), "%.*s-debian", (int)strcspn(name, ":"), name);
	(void)snprintf(packages, sizeof(packages), PACKAGES "%s%.3000s",
		       t->include == NULL ? "" : ",", t->include == NULL ? "" : t->include);
	(void)fprintf(stderr, "cordon: making %s: this downloads some 150 MiB of packages\n", base);
	if (template_import_debian(a, &import, t->suite == NULL ? SUITE : t->suite, packages,
				   t->mirror, &made, e) < 0)
		return -1;
	(void)snprintf(ret_from, NAME_SIZE, "%.*s", NAME_SIZE - 1, base);
	return 0;
}

int template_interpreter(struct api_call *a, const struct template_interpreter *t, json_t **ret,
			 struct err *e)
{
	char from[NAME_SIZE], name[NAME_SIZE];
	OWN_JSON *body = NULL;
	struct target target;

	if (t->science && t->from != NULL)
		return err_set(e, ERR_INVALID, "--science: not with --from");
	(void)snprintf(from, sizeof(from), "%s", t->from == NULL ? "host" : t->from);
	if (t->name != NULL)
		(void)snprintf(name, sizeof(name), "%s", t->name);
	else if (t->science)
		(void)snprintf(name, sizeof(name), "science");
	else
		(void)snprintf(name, sizeof(name), "%.*s-interpreter",
			       (int)strcspn(from, ":") < 200 ? (int)strcspn(from, ":") : 200, from);
	if (t->science && make_debian(a, t, name, from, e) < 0)
		return -1;
	body = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "name", name, "from", from,
			 "start_command", PROGRAM " serve", "ready_command", PROGRAM " ready",
			 "start_restart", 1, "interpreter", 1);
	if (body == NULL)
		return err_set(e, ERR_INVALID, "--name or --from: not text");
	target_init(&target, "/v1/templates");
	return api_call_json(a, "POST", &target, body, ret, e);
}
