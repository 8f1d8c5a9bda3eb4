/* The configuration of mcp-gateway is read, or refused with an error that can be printed; what is
 * accepted can be given to a shell and to execve(2). */
#include "fuzz.h"

#include "incell/mcpgateway/gateway_config.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	struct gateway_config c;
	struct err e = { 0 };

	if (gateway_config_read(text, size, &c, &e) == 0) {
		fuzz_accepted++;
		for (size_t i = 0; i < c.n; i++) {
			struct gateway_entry *v = &c.entries[i];

			assert(join_server_name_is_valid(v->name, strlen(v->name)));
			assert(v->run.len > 0 && memchr(v->run.data, '\0', v->run.len) == NULL);
			assert(v->env.len == 0 || v->env.data[v->env.len - 1] == '\0');
			assert(strchr(v->repository, '\'') == NULL);
		}
	} else {
		assert(e.msg[0] != '\0');
	}
	gateway_config_release(&c);
	free(text);
	return 0;
}
