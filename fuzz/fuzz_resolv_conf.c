/* One text, read as resolv.conf and as hosts: bounded, and something usable in any case. */
#include "fuzz.h"

#include "lib/policy/host.h"
#include "lib/outbound/resolver_conf.h"

unsigned long fuzz_accepted;

static void check_conf(const char *text)
{
	struct resolver_conf c;

	resolver_conf_read(text, &c);
	assert(c.nservers >= 1 && c.nservers <= RESOLVER_CONF_SERVERS);
	assert(c.timeout_ms >= 1000 && c.timeout_ms <= 5000);
	assert(c.attempts >= 1 && c.attempts <= 3);
	fuzz_accepted += c.nservers > 1;
}

static void check_hosts(const char *text)
{
	static const char *const wanted[] = { "localhost", "db.internal", "a" };
	struct resolver_hosts *h = resolver_conf_hosts(text);
	struct ip ips[3];

	assert(h);
	for (size_t i = 0; i < COUNT(wanted); i++) {
		size_t n = resolver_conf_hosts_find(h, wanted[i], ips, COUNT(ips));

		assert(n <= COUNT(ips));
		fuzz_accepted += n > 0;
	}
	assert(resolver_conf_hosts_find(h, "", ips, 1) == 0);
	assert(resolver_conf_hosts_find(h, "Localhost", ips, 1) == 0);
	resolver_conf_hosts_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_conf(text);
	check_hosts(text);
	free(text);
	return 0;
}
