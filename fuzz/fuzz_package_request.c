/* Any request as a package request: method, path and query stand in lines. Texts are bounded and
 * printable; names are in their normal form; the metadata of a name, and a file composed from name
 * and version, are read as the same package again. */
#include "fuzz.h"

#include <stdio.h>

#include "lib/packages/package_request.h"

unsigned long fuzz_accepted;

static void check_text(const char *text, size_t cap)
{
	size_t n = strnlen(text, cap);

	assert(n < cap);
	for (size_t i = 0; i < n; i++)
		assert(text[i] > ' ' && text[i] < 0x7f && text[i] != '%');
}

static void check(const struct package_request *r)
{
	char again[PACKAGE_NAME_MAX];

	check_text(r->name, sizeof(r->name));
	check_text(r->written, sizeof(r->written));
	check_text(r->version, sizeof(r->version));
	check_text(r->file, sizeof(r->file));
	assert((r->name[0] == '\0') == (r->written[0] == '\0'));
	assert(!r->is_lookalike || (r->kind == PACKAGE_OTHER && r->name[0] == '\0'));
	assert(strstr(r->name, "..") == NULL || r->ecosystem != ECO_PYPI);
	if (r->name[0] == '\0')
		return;
	assert(package_name_normal(r->ecosystem, r->name, strlen(r->name), again));
	assert(strcmp(again, r->name) == 0);
	assert(package_name_normal(r->ecosystem, r->written, strlen(r->written), again));
	assert(strcmp(again, r->name) == 0);
}

/* Escaped as clients do: '+' is the only sign of names and versions that is. */
static void compose(const struct package_request *r, char *path, size_t cap)
{
	const char *slash = strchr(r->name, '/');
	const char *base = slash == NULL ? r->name : slash + 1;

	path[0] = '\0';
	if (r->ecosystem == ECO_NPM)
		(void)snprintf(path, cap, "/%s/-/%s-%s.tgz", r->name, base, r->version);
	else if (r->ecosystem == ECO_CARGO)
		(void)snprintf(path, cap, "/crates/%s/%s-%s.crate", r->written, r->written,
			       r->version);
	else if (r->ecosystem == ECO_PYPI || r->ecosystem == ECO_APT)
		(void)snprintf(path, cap, "/pool/%s", r->file);
	else if (r->ecosystem == ECO_GEM)
		(void)snprintf(path, cap, "/gems/%s", r->file);
}

static void check_file(const struct package_request *r)
{
	char path[1024];
	struct package_request again;

	if (r->kind != PACKAGE_FILE || r->name[0] == '\0')
		return;
	compose(r, path, sizeof(path));
	if (path[0] == '\0')
		return;
	package_request_read(r->ecosystem, true, "GET", path, NULL, &again);
	assert(again.kind == PACKAGE_FILE && strcmp(again.name, r->name) == 0 &&
	       strcmp(again.version, r->version) == 0);
}

static char *line(char **at)
{
	char *text = *at;
	size_t n = strcspn(text, "\n");

	*at = text + n + (text[n] == '\n');
	text[n] = '\0';
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *at = text;
	char *method = line(&at), *path = line(&at), *query = *at == '\0' ? NULL : line(&at);
	/* copies of exactly their size */
	char *m = fuzz_copy(method, strlen(method) + 1), *p = fuzz_copy(path, strlen(path) + 1);
	struct package_request r;

	for (int eco = 0; eco < ECOSYSTEMS; eco++) {
		package_request_read((enum ecosystem)eco, false, m, p, query, &r);
		check(&r);
		check_file(&r);
		fuzz_accepted += r.kind != PACKAGE_OTHER;
		package_request_read((enum ecosystem)eco, true, m, p, query, &r);
		check(&r);
	}
	if (package_request_direct(m, p, query, &r))
		check(&r);
	free(p);
	free(m);
	free(text);
	return 0;
}
