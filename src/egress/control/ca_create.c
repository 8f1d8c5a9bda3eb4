#include "egress/control/ca_create.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/net/leaf_certs.h"

int ca_create(void)
{
	char pem[LEAF_CERTS_PEM_MAX], shown[LEAF_CERTS_PEM_MAX], link[16], head[32];
	struct err e = { 0 };
	int result = leaf_certs_create_ca((int64_t)(clock_wall_ms() / 1000), pem, &e);

	if (result == 0)
		result = leaf_certs_ca_cert(pem, shown, link, &e);
	if (result == 0) {
		(void)snprintf(head, sizeof(head), "# %s\n", link);
		result = io_write_all(STDOUT_FILENO, head, strlen(head), &e);
	}
	if (result == 0)
		result = io_write_all(STDOUT_FILENO, pem, strlen(pem), &e);
	explicit_bzero(pem, sizeof(pem));
	if (result == 0)
		return 0;
	(void)fprintf(stderr, "cordon-egress: %s\n", e.msg);
	return 1;
}
