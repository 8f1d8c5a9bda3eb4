#include "peers.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "hash16.h"
#include "rand.h"

void peers_init(struct peers *p)
{
	memset(p, 0, sizeof(*p));
	rand_bytes(&p->seed, sizeof(p->seed));
}

static void key_of(const struct addr *a, uint8_t ret[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->at;

	memset(ret, 0, 16);
	if (a->at.ss_family == AF_INET) {
		memcpy(ret, mapped, sizeof(mapped));
		memcpy(ret + 12, &v4->sin_addr, 4);
	} else if (a->at.ss_family == AF_INET6) {
		bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);

		memcpy(ret, &v6->sin6_addr, is_v4 ? 16 : 8);
	}
}

static struct peer **bucket_of(struct peers *p, const uint8_t key[16])
{
	return &p->buckets[hash16(key, p->seed) % PEERS_BUCKETS];
}

struct peer *peers_enter(struct peers *p, const struct addr *a)
{
	struct peer **at, *one;
	uint8_t key[16];

	key_of(a, key);
	at = bucket_of(p, key);
	for (one = *at; one != NULL && memcmp(one->key, key, sizeof(key)) != 0; one = one->next) {
	}
	if (one == NULL) {
		one = calloc(1, sizeof(*one));
		if (one == NULL)
			return NULL;
		memcpy(one->key, key, sizeof(key));
		one->local = addr_is_loopback(a);
		one->next = *at;
		*at = one;
	}
	one->conns++;
	return one;
}

void peers_leave(struct peers *p, struct peer *one)
{
	struct peer **at = bucket_of(p, one->key);

	assert(one->conns > 0);
	if (--one->conns > 0)
		return;
	assert(one->unkeyed == 0 && one->account.bodies == 0 && one->account.unread == 0);
	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
	free(one);
}
