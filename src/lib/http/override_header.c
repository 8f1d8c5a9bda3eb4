#include "lib/http/override_header.h"

/* In lower case. Names with an underscore are not here, because override_is_plain() finds each of
 * them. */
static const char *const names[] = {
	"forwarded",
	"x-envoy-original-host",
	"x-envoy-original-path",
	"x-forwarded-host",
	"x-forwarded-method",
	"x-forwarded-path",
	"x-forwarded-port",
	"x-forwarded-prefix",
	"x-forwarded-proto",
	"x-forwarded-scheme",
	"x-forwarded-server",
	"x-forwarded-ssl",
	"x-forwarded-uri",
	"x-forwarded-url",
	"x-host",
	"x-http-destinationurl",
	"x-http-host-override",
	"x-http-method",
	"x-http-method-override",
	"x-http-path-override",
	"x-method",
	"x-method-override",
	"x-middleware-rewrite",
	"x-middleware-subrequest",
	"x-original-host",
	"x-original-method",
	"x-original-path",
	"x-original-uri",
	"x-original-url",
	"x-proxy-url",
	"x-real-host",
	"x-rewrite-uri",
	"x-rewrite-url",
	"x-script-name",
	"x-url-scheme",
};

/* A letter, a digit or '-': characters that a server behind CGI can tell apart. */
static bool override_is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-';
}

bool override_header_is(struct http1_span name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!override_is_plain(name.p[i]))
			return true;
	for (size_t i = 0; i < COUNT(names); i++)
		if (http1_span_is_nocase(name, names[i]))
			return true;
	return false;
}
