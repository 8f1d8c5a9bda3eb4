/* package_request.c - selects the table that understands a request. Called by package_direct.c and
 * by package_gate.c of cordon-egress. */
#include "lib/packages/package_request.h"

#include "lib/packages/package_chars.h"
#include "lib/packages/package_row.h"
#include "lib/packages/package_spelling.h"

const char *package_kind_name(enum package_kind kind)
{
	static const char *const names[PACKAGE_KINDS] = {
		[PACKAGE_INDEX] = "index",     [PACKAGE_META] = "meta",
		[PACKAGE_FILE] = "file",       [PACKAGE_FILEMETA] = "filemeta",
		[PACKAGE_PUBLISH] = "publish", [PACKAGE_SEARCH] = "search",
		[PACKAGE_AUDIT] = "audit",     [PACKAGE_AUTH] = "auth",
		[PACKAGE_KEY] = "key",	       [PACKAGE_OTHER] = "other",
	};

	return (unsigned)kind < PACKAGE_KINDS ? names[kind] : "other";
}

static const struct package_table *table_of(enum ecosystem eco)
{
	static const struct package_table *const tables[ECOSYSTEMS] = {
		[ECO_PYPI] = &package_table_pypi, [ECO_NPM] = &package_table_npm,
		[ECO_APT] = &package_table_apt,	  [ECO_CARGO] = &package_table_cargo,
		[ECO_GO] = &package_table_go,	  [ECO_GIT] = &package_table_git,
		[ECO_OCI] = &package_table_oci,	  [ECO_MAVEN] = &package_table_maven,
		[ECO_GEM] = &package_table_gem,
	};

	return tables[eco];
}

/* Write the escaped slash of an npm scope as a slash, if it is the only one: "/@a%2Fb" becomes
 * "/@a/b". */
static void write_scope(char *path)
{
	char *at = strstr(path, "/@");
	char *slash = at == NULL ? NULL : strstr(at, "%2F");

	if (slash == NULL || memchr(at + 1, '/', (size_t)(slash - at - 1)) != NULL)
		return;
	*slash = '/';
	memmove(slash + 1, slash + 3, strlen(slash + 3) + 1);
}

/* May the host answer this request? The file hosts of most ecosystems have files only. The others
 * have a single host, or several kinds of hosts. */
static bool fits_host(const struct package_request *r, bool host_is_files)
{
	if (!host_is_files || r->ecosystem == ECO_APT || r->ecosystem == ECO_CARGO ||
	    r->ecosystem == ECO_GO || r->ecosystem == ECO_GIT || r->ecosystem == ECO_OCI)
		return true;
	return r->kind == PACKAGE_FILE || r->kind == PACKAGE_FILEMETA || r->kind == PACKAGE_PUBLISH;
}

static bool package_request_find(enum ecosystem eco, const char *method, const char *path,
				 const char *query, struct package_request *ret)
{
	if (eco == ECO_GIT && package_git_archive(method, path, ret))
		return true;
	return package_table_find(eco, table_of(eco), method, path, query, ret);
}

/* A request outside of the table is OTHER, and is_lookalike if a server could still understand
 * it. */
void package_request_read(enum ecosystem eco, bool host_is_files, const char *method,
			  const char *path, const char *query, struct package_request *ret)
{
	char copy[PACKAGE_PATH_MAX];
	size_t n = strlen(path);

	*ret = (struct package_request){ .ecosystem = eco, .kind = PACKAGE_OTHER };
	if ((unsigned)eco >= ECOSYSTEMS)
		return;
	if (n < sizeof(copy)) {
		memcpy(copy, path, n + 1);
		if (eco == ECO_NPM)
			write_scope(copy);
		if (package_request_find(eco, method, copy, query, ret) &&
		    fits_host(ret, host_is_files))
			return;
	}
	*ret = (struct package_request){ .ecosystem = eco,
					 .kind = PACKAGE_OTHER,
					 .is_lookalike =
						 package_spelling_resembles(eco, true, path) };
}
