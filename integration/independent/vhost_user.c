// SPDX-License-Identifier: MIT OR Apache-2.0

/* A front end: stands for the VMM, and for the part of a kernel that knows guest-physical addresses. */
#include "vhost_user.h"

#include "failure.h"
#include "guest.h"
#include "transcript.h"
#include "virtqueue.h"
#include "words.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define VIRTIO_F_VERSION_1 (1ull << 32)
#define VHOST_USER_F_PROTOCOL_FEATURES (1ull << 30)
/* Protocol features, by bit. */
#define MQ (1ull << 0)
#define REPLY_ACK (1ull << 3)
#define BACKEND_REQ (1ull << 5)
#define CONFIG (1ull << 9)
#define BACKEND_SEND_FD (1ull << 10)
#define SHMEM (1ull << 22)

/* Guest memory: its first guest-physical address, what the front end calls that, and its size. */
#define RAM_START 0x100000ull
#define RAM_HERE 0x7f0000000000ull
#define RAM_SIZE (32ull << 20)

struct front_end {
    struct guest guest;
    int socket;
    int memory;
    int kicks[QUEUES];
    int calls[QUEUES];
    uint8_t *ram;
    uint64_t ram_used;
    struct window window;
};

static const char *name_of(enum message message)
{
    switch (message) {
    case GET_FEATURES: return "GET_FEATURES";
    case SET_FEATURES: return "SET_FEATURES";
    case SET_OWNER: return "SET_OWNER";
    case SET_MEM_TABLE: return "SET_MEM_TABLE";
    case SET_VRING_NUM: return "SET_VRING_NUM";
    case SET_VRING_ADDR: return "SET_VRING_ADDR";
    case SET_VRING_BASE: return "SET_VRING_BASE";
    case GET_VRING_BASE: return "GET_VRING_BASE";
    case SET_VRING_KICK: return "SET_VRING_KICK";
    case SET_VRING_CALL: return "SET_VRING_CALL";
    case GET_PROTOCOL_FEATURES: return "GET_PROTOCOL_FEATURES";
    case SET_PROTOCOL_FEATURES: return "SET_PROTOCOL_FEATURES";
    case GET_QUEUE_NUM: return "GET_QUEUE_NUM";
    case SET_VRING_ENABLE: return "SET_VRING_ENABLE";
    case SET_BACKEND_REQ_FD: return "SET_BACKEND_REQ_FD";
    case GET_CONFIG: return "GET_CONFIG";
    case GET_SHMEM_CONFIG: return "GET_SHMEM_CONFIG";
    }
    return "?";
}

void message_send(int socket, uint32_t request, uint32_t flags, const void *body, size_t length,
                  int descriptor)
{
    uint8_t bytes[sizeof(struct message_header) + MAX_BODY];
    struct message_header header = {request, flags | MESSAGE_VERSION, (uint32_t)length};
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } rights = {0};
    struct iovec part = {bytes, sizeof header + length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(bytes, &header, sizeof header);
    if (length > 0)
        memcpy(bytes + sizeof header, body, length);
    if (descriptor >= 0) {
        message.msg_control = &rights;
        message.msg_controllen = sizeof rights;
        struct cmsghdr *right = CMSG_FIRSTHDR(&message);
        right->cmsg_level = SOL_SOCKET;
        right->cmsg_type = SCM_RIGHTS;
        right->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(right), &descriptor, sizeof descriptor);
    }
    transcript_bytes("to the device", bytes, part.iov_len);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != (ssize_t)part.iov_len)
        fail_with_errno("cannot send a message");
}

struct message_header message_receive(int socket, struct message_body *body, int *descriptor)
{
    struct message_header header;
    uint8_t bytes[sizeof header + MAX_BODY];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } rights = {0};
    struct iovec part = {bytes, sizeof header};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof header)
        fail("the device ended the connection");
    memcpy(&header, bytes, sizeof header);
    *descriptor = -1;
    struct cmsghdr *right = CMSG_FIRSTHDR(&message);
    if (right != NULL && right->cmsg_type == SCM_RIGHTS)
        memcpy(descriptor, CMSG_DATA(right), sizeof *descriptor);
    if ((header.flags & 3) != MESSAGE_VERSION || header.size > MAX_BODY)
        fail("message %u has flags %x and %u bytes", header.request, header.flags, header.size);
    body->length = header.size;
    if (header.size > 0
        && recv(socket, bytes + sizeof header, header.size, MSG_WAITALL) != (ssize_t)header.size)
        fail("the device ended the connection within a message");
    memcpy(body->bytes, bytes + sizeof header, header.size);
    transcript_bytes("from the device", bytes, sizeof header + header.size);
    return header;
}

/* Sends a message that has a reply of its own, and takes that. */
static void ask(struct front_end *front_end, enum message message, const void *body, size_t length,
                void *reply, size_t reply_length)
{
    struct message_body answer;
    int descriptor;
    transcript_step("%s", name_of(message));
    message_send(front_end->socket, message, 0, body, length, -1);
    struct message_header header = message_receive(front_end->socket, &answer, &descriptor);
    if (header.request != message || !(header.flags & MESSAGE_REPLY) || answer.length != reply_length)
        fail("%s is answered by message %u of %zu bytes", name_of(message), header.request,
             answer.length);
    memcpy(reply, answer.bytes, reply_length);
}

/* Sends a message and, where that was agreed on, waits until it is acknowledged. */
static void tell(struct front_end *front_end, enum message message, const void *body, size_t length,
                 int descriptor, bool acknowledged)
{
    transcript_step("%s%s", name_of(message), descriptor >= 0 ? ", with a descriptor" : "");
    message_send(front_end->socket, message, acknowledged ? MESSAGE_NEED_REPLY : 0, body, length,
                 descriptor);
    if (acknowledged) {
        struct message_body answer;
        struct message_header header = message_receive(front_end->socket, &answer, &descriptor);
        if (header.request != message || answer.length != 8 || get64(answer.bytes) != 0)
            fail("the device refuses %s", name_of(message));
    }
}

static struct page new_page(struct guest *guest)
{
    struct front_end *front_end = (struct front_end *)guest;
    if (front_end->ram_used + PAGE > RAM_SIZE)
        fail("the guest has no memory left");
    struct page page = {front_end->ram + front_end->ram_used, RAM_START + front_end->ram_used};
    front_end->ram_used += PAGE;
    return page;
}

static void kick(struct guest *guest, unsigned queue)
{
    struct front_end *front_end = (struct front_end *)guest;
    uint64_t one = 1;
    if (write(front_end->kicks[queue], &one, sizeof one) != sizeof one)
        fail_with_errno("cannot kick");
}

static void await(struct guest *guest)
{
    struct front_end *front_end = (struct front_end *)guest;
    struct pollfd awaited[] = {
        {.fd = front_end->calls[CONTROL_QUEUE], .events = POLLIN},
        {.fd = front_end->window.channel, .events = POLLIN},
        {.fd = front_end->socket, .events = POLLIN},
    };
    uint64_t count;
    if (poll(awaited, 3, 1000) < 0 && errno != EINTR)
        fail_with_errno("cannot wait");
    if (awaited[0].revents & POLLIN && read(awaited[0].fd, &count, sizeof count) < 0)
        fail_with_errno("cannot read a call");
    if (awaited[1].revents & POLLIN)
        window_serve(&front_end->window);
    if (awaited[2].revents != 0)
        fail("the device ended the connection");
}

/* SET_MEM_TABLE: transport.md, "Over vhost-user". */
static void announce_memory(struct front_end *front_end)
{
    struct {
        uint32_t regions, padding;
        uint64_t address, size, here, offset;
    } table = {1, 0, RAM_START, RAM_SIZE, RAM_HERE, 0};
    tell(front_end, SET_MEM_TABLE, &table, sizeof table, front_end->memory, true);
}

static void start(struct guest *guest, const struct page queues[QUEUES])
{
    struct front_end *front_end = (struct front_end *)guest;
    announce_memory(front_end);
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        uint32_t number[2] = {queue, QUEUE_SIZE}, base[2] = {queue, 0};
        uint64_t here = RAM_HERE + (queues[queue].address - RAM_START), index = queue;
        struct {
            uint32_t queue, flags;
            uint64_t descriptors, used, available, log;
        } address = {queue, 0, here, here + USED_OFFSET, here + AVAILABLE_OFFSET, 0};
        tell(front_end, SET_VRING_NUM, number, sizeof number, -1, true);
        tell(front_end, SET_VRING_BASE, base, sizeof base, -1, true);
        tell(front_end, SET_VRING_ADDR, &address, sizeof address, -1, true);
        tell(front_end, SET_VRING_KICK, &index, sizeof index, front_end->kicks[queue], true);
        tell(front_end, SET_VRING_CALL, &index, sizeof index, front_end->calls[queue], true);
    }
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        uint32_t enable[2] = {queue, 1};
        tell(front_end, SET_VRING_ENABLE, enable, sizeof enable, -1, true);
    }
}

/* A reset: transport.md, "Reset". */
static void stop(struct guest *guest)
{
    struct front_end *front_end = (struct front_end *)guest;
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        uint32_t state[2] = {queue, 0};
        ask(front_end, GET_VRING_BASE, state, sizeof state, state, sizeof state);
    }
    window_clear(&front_end->window);
}

static void negotiate(struct front_end *front_end)
{
    const uint64_t wanted = VIRTIO_F_VERSION_1 | VHOST_USER_F_PROTOCOL_FEATURES;
    const uint64_t needed = MQ | REPLY_ACK | CONFIG;
    const uint64_t for_bar = BACKEND_REQ | BACKEND_SEND_FD | SHMEM;
    uint64_t offered, queues;
    tell(front_end, SET_OWNER, NULL, 0, -1, false);
    ask(front_end, GET_FEATURES, NULL, 0, &offered, sizeof offered);
    if ((offered & wanted) != wanted)
        fail("features 0x%llx are offered", (unsigned long long)offered);
    ask(front_end, GET_PROTOCOL_FEATURES, NULL, 0, &offered, sizeof offered);
    if ((offered & (needed | for_bar)) != (needed | for_bar))
        fail("protocol features 0x%llx are offered", (unsigned long long)offered);
    offered = needed | for_bar;
    tell(front_end, SET_PROTOCOL_FEATURES, &offered, sizeof offered, -1, false);
    tell(front_end, SET_FEATURES, &wanted, sizeof wanted, -1, true);
    ask(front_end, GET_QUEUE_NUM, NULL, 0, &queues, sizeof queues);
    if (queues < QUEUES)
        fail("the device has %llu queues", (unsigned long long)queues);
}

static void read_config(struct front_end *front_end)
{
    uint8_t message[12 + CONFIG_SIZE] = {0}, reply[sizeof message];
    put32(message + 4, CONFIG_SIZE);
    ask(front_end, GET_CONFIG, message, sizeof message, reply, sizeof reply);
    memcpy(front_end->guest.config, reply + 12, CONFIG_SIZE);
}

static void open_window(struct front_end *front_end)
{
    uint8_t regions[8 + 256 * 8];
    int ends[2];
    ask(front_end, GET_SHMEM_CONFIG, NULL, 0, regions, sizeof regions);
    if (get32(regions) != 1)
        fail("the device has %u shared-memory regions", get32(regions));
    window_open(&front_end->window, get64(regions + 8));
    front_end->guest.bar = front_end->window.base;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        fail_with_errno("no channel for the device's requests");
    tell(front_end, SET_BACKEND_REQ_FD, NULL, 0, ends[1], true);
    close(ends[1]);
    front_end->window.channel = ends[0];
}

struct guest *vhost_user_guest(const char *socket_path)
{
    struct front_end *front_end = calloc(1, sizeof *front_end);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (front_end == NULL || strlen(socket_path) >= sizeof address.sun_path)
        fail("the socket's path is too long");
    strcpy(address.sun_path, socket_path);
    front_end->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (front_end->socket < 0
        || connect(front_end->socket, (struct sockaddr *)&address, sizeof address) < 0)
        fail_with_errno("cannot connect");
    front_end->memory = memfd_create("independent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (front_end->memory < 0 || ftruncate(front_end->memory, (off_t)RAM_SIZE) < 0)
        fail_with_errno("no guest memory");
    void *ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, front_end->memory, 0);
    if (ram == MAP_FAILED)
        fail_with_errno("no guest memory");
    front_end->ram = ram;
    for (unsigned queue = 0; queue < QUEUES; queue++) {
        front_end->kicks[queue] = eventfd(0, EFD_CLOEXEC);
        front_end->calls[queue] = eventfd(0, EFD_CLOEXEC);
    }
    front_end->guest.nowhere = RAM_START + RAM_SIZE;
    front_end->guest.new_page = new_page;
    front_end->guest.kick = kick;
    front_end->guest.wait = await;
    front_end->guest.start = start;
    front_end->guest.stop = stop;
    negotiate(front_end);
    read_config(front_end);
    open_window(front_end);
    return &front_end->guest;
}
