#include "device/host/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "device/posix/process_memory.hpp"

namespace tutti::device::host {

namespace {

constexpr std::uint64_t kMagic = 0x3274'736f'6874'7574;  // "tuthost2" in ASCII
// A frame ring is small enough for a core's cache. With at most kFewRanks ranks, it is also large
// enough for all frames that one rendezvous has in flight.
constexpr std::size_t kFrameCapacityBytes = 256 * 1024;
constexpr std::size_t kFrameCapacityOfManyBytes = 64 * 1024;
constexpr std::uint32_t kFewRanks = 16;
constexpr std::uint32_t kChunkSlots = 32;
constexpr std::uint32_t kChunkBytes = 16 * 1024;

constexpr std::size_t head_bytes() {
  return (sizeof(SegmentHead) + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

std::span<std::byte> map(int file, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), bytes};
}

// The seals fix the size of a segment's memory, so that a peer cannot make an access fail by
// shrinking the memory.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Opens the file of type `type` (S_IFMT) that another process of the same user has open as
/// `descriptor`. A peer chose the process and the descriptor, and opening a device or terminal can
/// have side effects; so the file is examined before it is opened.
Result<Descriptor> open_of(std::int32_t process, std::int32_t descriptor, mode_t type, int flags,
                           struct stat& info) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  const auto failed = [&path] {
    return system_failure(
        errno,
        "the shared memory or wake pipe {} of a rank on this host cannot be opened (run all ranks "
        "as the same user, or use TUTTI_DEVICE=ip)",
        path);
  };
  const Descriptor seen(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!seen.valid() || ::fstat(seen.get(), &info) != 0) return failed();
  if ((info.st_mode & S_IFMT) != type || info.st_uid != ::geteuid()) {
    return failure(
        Code::invalid_argument,
        "{} is not a shared memory file or wake pipe that this user owns: start all ranks again as "
        "the same user",
        path);
  }
  Descriptor opened(::open(fmt::format("/proc/self/fd/{}", seen.get()).c_str(), flags | O_CLOEXEC));
  if (!opened.valid()) return failed();
  return opened;
}

}  // namespace

std::size_t SegmentShape::frame_capacity_bytes() const {
  return ranks <= kFewRanks ? kFrameCapacityBytes : kFrameCapacityOfManyBytes;
}

ChunkRingShape SegmentShape::chunk_ring() const {
  return {.ranks = ranks, .slots = kChunkSlots, .chunk_bytes = kChunkBytes};
}

std::size_t SegmentShape::slots_offset() const {
  return head_bytes() + ranks * frame_ring_bytes(frame_capacity_bytes()) +
         subgroups * chunk_ring().bytes();
}

std::size_t SegmentShape::regions_offset() const { return slots_offset() + SlotShare::bytes(); }

std::size_t SegmentShape::bytes() const { return regions_offset() + SharedRegions::bytes(); }

std::vector<std::byte> SegmentAddress::encode() const {
  // The padding at the end of the structure is not copied, because memory that was never written
  // must not leave the process.
  std::vector<std::byte> bytes(sizeof *this);
  std::memcpy(bytes.data(), this, offsetof(SegmentAddress, bell) + sizeof bell);
  return bytes;
}

Result<SegmentAddress> SegmentAddress::decode(std::span<const std::byte> bytes) {
  SegmentAddress address;
  if (bytes.size() != sizeof address) {
    return failure(Code::invalid_argument,
                   "a shared memory address has the wrong size of {} bytes: use the same version "
                   "of Tutti on all ranks",
                   bytes.size());
  }
  std::memcpy(static_cast<void*>(&address), bytes.data(), sizeof address);
  return address;
}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(memory_, other.memory_);
  std::swap(token_, other.token_);
  std::swap(process_, other.process_);
  std::swap(readable_, other.readable_);
  std::swap(file_, other.file_);
  std::swap(bell_out_, other.bell_out_);
  std::swap(bell_in_, other.bell_in_);
  return *this;
}

Segment::~Segment() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

Result<Segment> Segment::create(const SegmentShape& shape) {
  Segment segment;
  segment.shape_ = shape;
  segment.file_ = Descriptor(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.file_.valid()) return system_failure(errno, "creating shared memory");
  const auto bytes = static_cast<off_t>(shape.bytes());
  if (::ftruncate(segment.file_.get(), bytes) != 0) {
    return system_failure(errno, "sizing shared memory to {} bytes", bytes);
  }
  if (::fcntl(segment.file_.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_failure(errno, "sealing the size of shared memory");
  }
  segment.memory_ = map(segment.file_.get(), shape.bytes());
  if (segment.memory_.empty())
    return system_failure(errno, "mapping {} bytes of shared memory", bytes);
  std::array<int, 2> bell{};
  if (::pipe2(bell.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return system_failure(errno, "creating the pipe that wakes this rank");
  }
  segment.bell_out_ = Descriptor(bell[0]);
  segment.bell_in_ = Descriptor(bell[1]);
  SegmentHead& head = segment.head();
  if (::getrandom(&head.token, sizeof head.token, 0) != sizeof head.token) {
    return system_failure(errno, "reading random bytes for the shared memory's token");
  }
  struct stat bell_info {};
  if (::fstat(segment.bell_in_.get(), &bell_info) != 0) {
    return system_failure(errno, "examining the pipe that wakes this rank");
  }
  head.bell = bell_info.st_ino;
  head.token_address = reinterpret_cast<std::uintptr_t>(&head.token);
  head.magic = kMagic;
  return segment;
}

Result<Segment> Segment::open(const SegmentAddress& address, const SegmentShape& shape) {
  Segment segment;
  segment.shape_ = shape;
  struct stat info {};
  auto file = open_of(address.process, address.memory, S_IFREG, O_RDWR, info);
  if (!file) return file.status();
  // Only memory files can have seals. The seals fix the file's size, which is examined below.
  if (const int seals = ::fcntl(file->get(), F_GET_SEALS);
      seals < 0 || (seals & kSeals) != kSeals) {
    return failure(Code::invalid_argument,
                   "file descriptor {} of process {} is not sealed shared memory: use the same "
                   "version of Tutti on all ranks",
                   address.memory, address.process);
  }
  if (::fstat(file->get(), &info) != 0)
    return system_failure(errno, "examining shared memory of process {}", address.process);
  const off_t bytes = info.st_size;
  if (bytes != static_cast<off_t>(shape.bytes())) {
    return failure(Code::invalid_argument,
                   "shared memory of process {} has {} bytes instead of {}: use the same version "
                   "and settings of Tutti on all ranks",
                   address.process, bytes, shape.bytes());
  }
  segment.memory_ = map(file->get(), shape.bytes());
  if (segment.memory_.empty()) {
    return system_failure(errno, "mapping shared memory of process {}", address.process);
  }
  if (segment.head().magic != kMagic || segment.head().token != address.token) {
    return failure(
        Code::invalid_argument,
        "shared memory of process {} belongs to another job or rank: start all ranks again",
        address.process);
  }
  // The pipe is opened for reading, too, so that a write to a rank that has ended raises no
  // SIGPIPE.
  auto bell = open_of(address.process, address.bell, S_IFIFO, O_RDWR | O_NONBLOCK, info);
  if (!bell) return bell.status();
  if (info.st_ino != segment.head().bell) {
    return failure(Code::invalid_argument,
                   "file descriptor {} of process {} is not the pipe that wakes its rank: start "
                   "all ranks again",
                   address.bell, address.process);
  }
  segment.bell_in_ = std::move(*bell);
  segment.token_ = address.token;
  segment.process_ = address.process;
  segment.readable_ = segment.read_owner(segment.head().token_address, {});
  return segment;
}

bool Segment::read_owner(std::uint64_t address, std::span<std::byte> to) const {
  // The token shows whether the process is still the owner. The owner may have ended, and its
  // process id may belong to another process.
  std::uint64_t token = 0;
  const RemoteCopy token_copy{head().token_address, std::as_writable_bytes(std::span(&token, 1))};
  return read_process(process_, token_copy, {address, to}) && token == token_;
}

SegmentAddress Segment::address() const {
  return {.token = head().token,
          .process = static_cast<std::int32_t>(::getpid()),
          .memory = file_.get(),
          .bell = bell_in_.get()};
}

std::span<std::byte> Segment::frames_from(Rank from) const {
  const std::size_t one = frame_ring_bytes(shape_.frame_capacity_bytes());
  return memory_.subspan(head_bytes() + index(from) * one, one);
}

ChunkRing Segment::chunks(std::uint32_t subgroup) const {
  const std::size_t frames = shape_.ranks * frame_ring_bytes(shape_.frame_capacity_bytes());
  const ChunkRingShape ring = shape_.chunk_ring();
  return {memory_.subspan(head_bytes() + frames + subgroup * ring.bytes(), ring.bytes()), ring};
}

SlotShare Segment::slot_exchange() const {
  return SlotShare(memory_.subspan(shape_.slots_offset(), SlotShare::bytes()));
}

SharedRegions Segment::regions() const {
  return SharedRegions(memory_.subspan(shape_.regions_offset(), SharedRegions::bytes()));
}

bool Segment::wake(bool acknowledgement_only) const {
  // The fence ensures one of two things: this rank sees that the owner sleeps, or the owner sees
  // this rank's store before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  constexpr auto kAwake = static_cast<std::uint32_t>(Sleep::awake);
  const std::uint32_t least = static_cast<std::uint32_t>(
      acknowledgement_only ? Sleep::for_acknowledgements : Sleep::for_work);
  if (head().sleep.load(std::memory_order_relaxed) < least) return false;
  if (head().sleep.exchange(kAwake, std::memory_order_acq_rel) == kAwake) return false;
  ring();
  return true;
}

bool Segment::wake_inline() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head().with_inline_engine.load(std::memory_order_relaxed) == 0) return false;
  if (head().with_inline_engine.exchange(0, std::memory_order_acq_rel) == 0) return false;
  ring();
  return true;
}

void Segment::ring() const {
  // A write that fails because the pipe is full does no harm: the pipe is readable already.
  const std::byte one{1};
  (void)!::write(bell_in_.get(), &one, 1);
}

void Segment::silence_bell() const {
  std::array<std::byte, 64> rings;
  while (::read(bell_out_.get(), rings.data(), rings.size()) ==
         static_cast<ssize_t>(rings.size())) {
  }
}

}  // namespace tutti::device::host
