#include "egress/control/control_out.h"

#define QUEUE_MAX ((size_t)8 << 20) /* records and counts. Answers may go a little beyond */
#define SHARE_MAX (QUEUE_MAX / 16)  /* of one session, while more than half is in use */

bool control_out_put(struct control_out *o, enum egress_type type, const char *id, const char *text,
		     size_t len)
{
	uint8_t head[EGRESS_HEAD];
	struct err e;

	if ((type == EGRESS_RECORD || type == EGRESS_COUNTS) &&
	    o->channel.queued + sizeof(head) + len > QUEUE_MAX)
		return false;
	egress_msg_head(head, type, id, len);
	return channel_send(
		       &o->channel,
		       &(struct channel_msg){
			       .bytes = head, .len = sizeof(head), .more = text, .more_len = len },
		       &e) == 0;
}

bool control_out_record(struct control_out *o, struct control_out_share *share, const char *id,
			const char *text, size_t len)
{
	if (share->emptied != o->channel.emptied)
		share->bytes = 0;
	share->emptied = o->channel.emptied;
	/* The first is taken, however long it is: a record with prompts may be longer than a share.
	 */
	if (o->channel.queued > QUEUE_MAX / 2 && share->bytes > 0 && share->bytes + len > SHARE_MAX)
		return false;
	if (!control_out_put(o, EGRESS_RECORD, id, text, len))
		return false;
	share->bytes += len;
	return true;
}
