/* package_request.c - which table a request is looked up in. */
#include "package_request.h"

#include <string.h>

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

void package_request_read(enum ecosystem eco, bool host_is_files, const char *method,
			  const char *path, const char *query, struct package_request *ret)
{
	(void)host_is_files;
	(void)method;
	(void)path;
	(void)query;
	memset(ret, 0, sizeof(*ret));
	ret->ecosystem = eco;
	ret->kind = PACKAGE_OTHER;
}

bool package_request_direct(const char *method, const char *path, const char *query,
			    struct package_request *ret)
{
	package_request_read(ECO_PYPI, true, method, path, query, ret);
	return false;
}
