#include "secret_registry.h"

#include <string.h>
#include <strings.h>

#include "seal.h"
#include "secret_state.h"

/* "example.com" or "*.example.com", as hosts of secrets are written. */
static bool fits(const char *pattern, size_t n, const char *host)
{
	size_t len = strlen(host);

	if (n > 2 && pattern[0] == '*' && pattern[1] == '.')
		return len > n - 1 && strncasecmp(host + len - (n - 1), pattern + 1, n - 1) == 0;
	return n == len && strncasecmp(pattern, host, n) == 0;
}

static bool is_bound_to(const char *hosts, const char *host)
{
	if (hosts == NULL || hosts[0] == '\0')
		return true;
	for (const char *line = hosts; *line != '\0';) {
		size_t n = strcspn(line, "\n");

		if (fits(line, n, host))
			return true;
		line += n + (line[n] == '\n');
	}
	return false;
}

static int check(struct core *c, const struct store_secret *row, const char *host, struct err *e)
{
	if (secret_usable(c, row, e) < 0)
		return -1;
	if ((row->ways & SECRET_BROKER) == 0 || !is_bound_to(row->hosts, host))
		return err_set(e, ERR_DENIED, "secret '%s' may not be sent to %.100s", row->name,
			       host);
	return 0;
}

int secret_registry_open(struct core *c, const struct tenant *t, const char *which,
			 const char *host, char **ret, size_t *ret_len, struct err *e)
{
	struct store_secret row;
	char *value = NULL, *colon;
	size_t len = 0;
	int result;

	if (secret_get(c, t, which, &row, e) < 0)
		return -1;
	result = check(c, &row, host, e);
	if (result == 0)
		result = secret_open(c, &row, &value, &len, e);
	colon = result == 0 ? memchr(value, ':', len) : NULL;
	if (result == 0 && (colon == NULL || colon == value))
		result = err_set(e, ERR_INVALID,
				 "secret '%s': credentials of a registry are user:password",
				 row.name);
	store_secret_release(&row);
	if (result < 0 || colon == NULL) {
		seal_wipe(value, len);
		return -1;
	}
	*colon = '\0';
	*ret = value;
	*ret_len = len;
	return 0;
}
