/* A report of malicious packages, or a list of them: entries are well-formed, and what a list of
 * them says is found again; any bytes are safe to look into. */
#include "fuzz.h"

#include <stdio.h>

#include "lib/packages/advisories.h"
#include "lib/packages/osv.h"

unsigned long fuzz_accepted;

static int on_entry(void *arg, const struct osv_entry *n, struct err *e)
{
	char line[1024], id[ADVISORY_ID_MAX], normal[PACKAGE_NAME_MAX];
	struct advisories list;
	int len;

	fuzz_accepted++;
	assert(package_name_normal(n->ecosystem, n->name, strlen(n->name), normal));
	assert(strcmp(normal, n->name) == 0 && strpbrk(n->version, " \n") == NULL);
	len = snprintf(line, sizeof(line), ADVISORIES_MAGIC "1 1\n%s %s %s %s\n",
		       ecosystem_name(n->ecosystem), n->name, n->version, n->id);
	assert(len > 0 && (size_t)len < sizeof(line));
	assert(advisories_open(line, (size_t)len, &list));
	assert(advisories_find(&list, n->ecosystem, n->name, n->version, id));
	assert(strcmp(id, n->id) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), id[ADVISORY_ID_MAX];
	struct advisories list;
	struct err e = { 0 };
	size_t skipped;

	if (osv_read(text, size, on_entry, NULL, &skipped, &e) < 0)
		assert(e.msg[0] != '\0');
	if (advisories_open(text, size, &list)) {
		fuzz_accepted++;
		(void)advisories_find(&list, ECO_NPM, "a", "1.0", id);
		(void)advisories_find(&list, ECO_PYPI, "a", NULL, id);
	}
	free(text);
	return 0;
}
