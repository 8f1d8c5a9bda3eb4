/* policy_allow.c - see policy_allow.h. */
#include "lib/policy/policy_allow.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/ip.h"
#include "lib/json/json.h"
#include "lib/policy/policy.h"

#define ALLOW_HOST_MAX 253
#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define ALLOW_INDEX_MAX 256 /* of all presets */

static struct {
	struct policy_allow_entry {
		char *host; /* kept until the program ends */
		const char *preset;
	} at[ALLOW_INDEX_MAX];
	size_t n;
	const char *preset; /* read now */
	bool made;
} hosts;

static void add_host(const char *host, void *arg)
{
	char *copy = hosts.n < ALLOW_INDEX_MAX ? strdup(host) : NULL;

	if (copy != NULL)
		hosts.at[hosts.n++] = (struct policy_allow_entry){ copy, hosts.preset };
}

static void make_index(void)
{
	struct policy *p;
	struct err e;

	hosts.made = true;
	for (size_t i = 0; (hosts.preset = policy_preset_name(i, NULL)) != NULL; i++) {
		const char *text = policy_preset(hosts.preset);

		if (policy_read(text, strlen(text), POLICY_SESSION, &p, &e) < 0)
			continue; /* a test reads each of them */
		policy_each_host(p, add_host, NULL);
		policy_free(p);
	}
}

const char *policy_allow_preset(const char *host)
{
	if (!hosts.made)
		make_index();
	for (size_t i = 0; i < hosts.n; i++)
		if (strcasecmp(hosts.at[i].host, host) == 0)
			return hosts.at[i].preset;
	return NULL;
}

bool policy_allow_is_host(const char *name)
{
	size_t n = strlen(name);
	struct ip ip;

	if (ip_read(name, n, &ip) == 0)
		return true;
	return n > 0 && n <= ALLOW_HOST_MAX && name[0] != '-' && strspn(name, HOST_CHARS) == n;
}

void policy_allow_write(struct json *j, const char *name)
{
	const char *preset = policy_allow_preset(name);
	struct ip ip;

	if (!policy_allow_is_host(name)) {
		json_none(j, "allow");
		return;
	}
	json_open(j, "allow", '{');
	json_open(j, preset != NULL ? "extends" : "rules", '[');
	if (preset != NULL) {
		json_text(j, NULL, preset);
	} else {
		json_open(j, NULL, '{');
		json_text(j, ip_read(name, strlen(name), &ip) == 0 ? "cidr" : "host", name);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}
