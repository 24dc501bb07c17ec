// SPDX-License-Identifier: MIT OR Apache-2.0

#include "control.h"

#include "failure.h"
#include "transcript.h"

#include <string.h>

void control_start(struct control *control, struct guest *guest)
{
    struct page queues[QUEUES];
    *control = (struct control){.guest = guest};
    for (unsigned queue = 0; queue < QUEUES; queue++)
        queues[queue] = guest->new_page(guest);
    control->queue.page = queues[CONTROL_QUEUE];
    control->request = guest->new_page(guest);
    control->reply = guest->new_page(guest);
    guest->start(guest, queues);
}

struct ended control_exchange(struct control *control, uint16_t head)
{
    struct ended ended = {0};
    struct timespec start = now();
    uint32_t used;
    memset(control->reply.here, 0xEE, PAGE);
    virtqueue_offer(&control->queue, head);
    control->guest->kick(control->guest, CONTROL_QUEUE);
    while (!virtqueue_take(&control->queue, &used, &ended.written)) {
        control->guest->wait(control->guest);
        check_time(&start, "a reply");
    }
    if (used != head)
        fail("descriptor %u came back, not %u", used, head);
    if (ended.written >= HEADER_SIZE) {
        struct reply_header header;
        memcpy(&header, control->reply.here, sizeof header);
        if (header.length != ended.written)
            fail("a reply of %u bytes claims %u", ended.written, header.length);
        ended.status = header.status;
        ended.detail = header.detail;
    }
    return ended;
}

size_t control_write(struct control *control, enum request_code code, uint32_t process,
                     const void *body, size_t body_length)
{
    struct request_header header = {
        .code = code,
        .length = (uint32_t)(sizeof header + body_length),
        .process = process,
    };
    if (header.length > PAGE)
        fail("a request of %u bytes is not in one page", header.length);
    memcpy(control->request.here, &header, sizeof header);
    memcpy(control->request.here + sizeof header, body, body_length);
    return header.length;
}

struct ended control_send(struct control *control, size_t length, uint32_t room)
{
    virtqueue_describe(&control->queue, 0, control->request.address, (uint32_t)length,
                       DESCRIPTOR_NEXT, 1);
    virtqueue_describe(&control->queue, 1, control->reply.address, room, DESCRIPTOR_WRITE, 0);
    return control_exchange(control, 0);
}

/* What the queue's parts hold after one request. */
static void show_queue(const struct virtqueue *queue)
{
    transcript_step("the control queue");
    transcript_bytes("descriptors 0 and 1", queue->page.here, 32);
    transcript_bytes("available ring", queue->page.here + AVAILABLE_OFFSET, 6);
    transcript_bytes("used ring", queue->page.here + USED_OFFSET, 12);
}

void control_call(struct control *control, enum request_code code, uint32_t process,
                  const void *body, size_t body_length, void *reply, size_t reply_length)
{
    size_t length = control_write(control, code, process, body, body_length);
    bool is_first = control->queue.offered == 0;
    transcript_bytes("request", control->request.here, length);
    struct ended ended = control_send(control, length, PAGE);
    if (is_first)
        show_queue(&control->queue);
    transcript_bytes("reply", control->reply.here, ended.written);
    if (ended.status != SUCCESS)
        fail("request 0x%02x ended with 0x%08x, detail 0x%llx", code, ended.status,
             (unsigned long long)ended.detail);
    if (ended.written != HEADER_SIZE + reply_length)
        fail("request 0x%02x: %u bytes came, not %zu", code, ended.written,
             HEADER_SIZE + reply_length);
    if (reply_length > 0)
        memcpy(reply, control->reply.here + HEADER_SIZE, reply_length);
}
