/* packages_registry.c - see packages_policy.h. */
#include "packages_policy.h"

const struct packages_policy *policy_packages(const struct policy *p)
{
	(void)p;
	return NULL;
}

const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files)
{
	(void)p;
	return packages_known_registry(host, port, path, ret_files);
}

bool package_registry_holds(const struct package_registry *r, const char *host, uint16_t port)
{
	(void)r;
	(void)host;
	(void)port;
	return false;
}

const struct package_registry *packages_known_registry(const char *host, uint16_t port,
						       const char *path, bool *ret_files)
{
	(void)host;
	(void)port;
	(void)path;
	*ret_files = false;
	return NULL;
}

bool packages_cache_only(const struct packages_policy *p)
{
	(void)p;
	return false;
}

const struct packages_limits *packages_limits(const struct packages_policy *p)
{
	static const struct packages_limits none;

	(void)p;
	return &none;
}

bool packages_cache_is_private(const struct packages_policy *p)
{
	(void)p;
	return false;
}
