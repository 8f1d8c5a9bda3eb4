#include "server_address.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "io.h"

#define DEFAULT_SERVER "http://127.0.0.1:4983"

const char *server_address(const struct args_common *o)
{
	const char *set = secure_getenv("CORDON_SERVER");

	if (o->server != NULL)
		return o->server;
	return set != NULL && *set != '\0' ? set : DEFAULT_SERVER;
}

static char key_place[PATH_MAX];

const char *server_address_key_place(void)
{
	return key_place;
}

/* It becomes a header: letters, digits and '_' keep it one, and keep mistakes (a certificate, a
 * file with several lines) from being sent anywhere. */
static int check(const char *from, char *key, struct err *e)
{
	size_t n = strcspn(key, "\r\n");

	if (key[n + strspn(key + n, "\r\n")] == '\0')
		key[n] = '\0';
	n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
	if (n == 0 || key[n] != '\0')
		return err_set(e, ERR_INVALID, "%.120s: does not contain an API key", from);
	(void)snprintf(key_place, sizeof(key_place), "%s", from);
	return 0;
}

/* 1: read; 0: the file does not exist, or is not readable. */
static int read_key(const char *path, char *ret_key, size_t cap, struct err *e)
{
	if (access(path, R_OK) < 0)
		return 0;
	if (io_read_file(AT_FDCWD, path, ret_key, cap, e) < 0)
		return err_wrap(e, "API key");
	return check(path, ret_key, e) < 0 ? -1 : 1;
}

int server_address_key(const struct args_common *o, char *ret_key, size_t cap, struct err *e)
{
	static const char *const places[] = { "~/.config/cordon/key", "/var/lib/cordon/first.key",
					      "~/.local/state/cordon/first.key" };
	const char *set = secure_getenv("CORDON_API_KEY"), *home = secure_getenv("HOME");
	char path[PATH_MAX];

	ret_key[0] = '\0';
	if (o->key_file != NULL) {
		if (io_read_file(AT_FDCWD, o->key_file, ret_key, cap, e) < 0)
			return err_wrap(e, "--key-file");
		return check(o->key_file, ret_key, e);
	}
	if (set != NULL && *set != '\0') {
		if (strlen(set) >= cap)
			return err_set(e, ERR_INVALID, "CORDON_API_KEY is too long");
		memcpy(ret_key, set, strlen(set) + 1);
		return check("CORDON_API_KEY", ret_key, e);
	}
	for (size_t i = 0; i < COUNT(places); i++) {
		int found;

		if (places[i][0] == '~' && home == NULL)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", places[i][0] == '~' ? home : "",
			       places[i] + (places[i][0] == '~'));
		found = read_key(path, ret_key, cap, e);
		if (found != 0)
			return found < 0 ? -1 : 0;
	}
	return 0;
}
