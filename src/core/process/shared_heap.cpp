#include "shared_heap.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "system.hpp"

namespace shardweld {

namespace {

// Addresses that neither programs nor libraries, stacks and heaps are given, on x86-64 and aarch64;
// sanitizers' shadows lie elsewhere, too.
constexpr std::uint64_t kFirst = std::uint64_t{0x20} << 40U;
constexpr std::uint64_t kEnd = std::uint64_t{0x21} << 40U;
// Taken from the system at once.
constexpr Bytes kChunk = Bytes{4} << 20U;
constexpr Bytes kAligned = alignof(std::max_align_t);

/// At the beginning of a heap.
struct HeapHead {
    std::uint64_t token = 0;
    void* root = nullptr;
};

[[noreturn]] void fail_in_common(const std::string& what) {
    const int code = errno;
    throw Error(ErrorCode::memory, "no memory in common: " + what + ": " + text_of_errno(code));
}

[[noreturn]] void refuse_in_common(const std::string& why) {
    throw Error(ErrorCode::memory, "no memory in common: " + why);
}

/// A descriptor that is closed.
class HeapFile {
  public:
    explicit HeapFile(int number) : number_(number) {}
    ~HeapFile() {
        if (number_ >= 0) {
            (void)::close(number_);
        }
    }
    HeapFile(const HeapFile&) = delete;
    HeapFile& operator=(const HeapFile&) = delete;

    [[nodiscard]] int get() const { return number_; }
    int release() { return std::exchange(number_, -1); }

  private:
    int number_;
};

void* pointer_to(std::uint64_t address) {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Maps a part of a file there and nowhere else; false where something else lies there.
bool map_at(std::uint64_t address, Bytes size, int flags, int descriptor, Bytes offset) {
    void* const found = ::mmap(pointer_to(address), size, PROT_READ | PROT_WRITE,
                               flags | MAP_FIXED_NOREPLACE, descriptor, static_cast<off_t>(offset));
    if (found == pointer_to(address)) {
        return true;
    }
    if (found != MAP_FAILED) {
        (void)::munmap(found, size);  // Linux before 4.17 takes the address as a wish
        errno = EEXIST;
    }
    return false;
}

/// This process' heaps.
std::vector<std::shared_ptr<SharedHeap>>& kept_heaps() {
    static auto& all = *new std::vector<std::shared_ptr<SharedHeap>>;  // to the process' end
    return all;
}

/// Another one, which ends those that nobody holds.
std::shared_ptr<SharedHeap> next_heap() {
    SharedHeap::end_unheld();
    return kept_heaps().emplace_back(std::make_shared<SharedHeap>());
}

/// Where this process' next heap begins: other addresses than those before, one of which others may
/// still have.
std::atomic<std::uint64_t> next_address{kFirst};

}  // namespace

/// While it lives, this thread's `new` takes memory of it.
class SharedHeap::Filling {
  public:
    explicit Filling(int descriptor) : descriptor_(descriptor), begin_(next_address.load()) {
        // A heap before it may still be held.
        while (!grow(sizeof(HeapHead))) {
            begin_ += kChunk;
            if (errno != EEXIST || begin_ + kChunk > kEnd) {
                next_address = kFirst;
                fail_in_common("no address for it");
            }
        }
        end_ = begin_ + sizeof(HeapHead);
        current = this;
    }
    /// What is thrown on the way may lie in the heap: it stays where it is.
    ~Filling() {
        current = nullptr;
        next_address = begin_ + mapped_;
    }
    Filling(const Filling&) = delete;
    Filling& operator=(const Filling&) = delete;

    void* allocate(std::size_t size) {
        const std::uint64_t place = (end_ + kAligned - 1) / kAligned * kAligned;
        if (size > kEnd - place ||
            (place + size > begin_ + mapped_ && !grow(place + size - begin_))) {
            throw std::bad_alloc();
        }
        end_ = place + size;
        return pointer_to(place);
    }
    /// Gives back what is not needed; the file has it all. Returns its size.
    Bytes finish(const HeapHead& head) {
        current = nullptr;
        std::memcpy(pointer_to(begin_), &head, sizeof(head));
        const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
        const Bytes size = (end_ - begin_ + page - 1) / page * page;
        if (::munmap(pointer_to(begin_), mapped_) != 0 ||
            ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
            fail_in_common("it cannot be cut");
        }
        return size;
    }
    [[nodiscard]] std::uint64_t begin() const { return begin_; }

    static thread_local Filling* current;

  private:
    /// Pages are taken before they are touched: what is missing is an error and no signal.
    bool grow(Bytes needed) {
        const Bytes size = (needed + kChunk - 1) / kChunk * kChunk;
        const Bytes more = size - mapped_;
        if (::fallocate(descriptor_, 0, static_cast<off_t>(mapped_), static_cast<off_t>(more)) !=
                0 ||
            !map_at(begin_ + mapped_, more, MAP_SHARED, descriptor_, mapped_)) {
            return false;
        }
        mapped_ = size;
        return true;
    }

    int descriptor_;
    std::uint64_t begin_;
    std::uint64_t end_ = 0;
    Bytes mapped_ = 0;
};

thread_local SharedHeap::Filling* SharedHeap::Filling::current = nullptr;

namespace {

/// Whether all that values are made of would lie in the heap: what is compiled here, and what the
/// C++ library has ready.
bool takes_new() {
    const std::unique_ptr<std::byte> one(new std::byte);
    std::string text;
    text.reserve(1000);
    return is_in_shared_heap(one.get()) && is_in_shared_heap(text.data());
}

}  // namespace

std::shared_ptr<SharedHeap> SharedHeap::fill(const std::function<void*()>& make) {
    if (!kHasSharedHeaps) {
        refuse_in_common("sanitizers");
    }
    const auto heap = next_heap();
    Place& place = heap->place_;
    constexpr unsigned kNoExec = 8;  // MFD_NOEXEC_SEAL, since Linux 6.3
    int made = ::memfd_create("shardweld", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec);
    if (made < 0 && errno == EINVAL) {
        made = ::memfd_create("shardweld", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    HeapFile file(made);
    if (file.get() < 0 ||
        ::getrandom(&place.token, sizeof(place.token), 0) != sizeof(place.token)) {
        fail_in_common("the system has none");
    }
    {
        Filling filling(file.get());
        if (!takes_new()) {
            refuse_in_common("this program's `new` is another");
        }
        void* const root = make();
        place.address = filling.begin();
        place.size = filling.finish({place.token, root});
    }
    if (::fcntl(file.get(), F_ADD_SEALS,
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        fail_in_common("it cannot be sealed");
    }
    heap->map_privately(file.get());
    place.process = ::getpid();
    place.descriptor = file.release();
    return heap;
}

std::shared_ptr<SharedHeap> SharedHeap::open(const Place& place) {
    const std::string path =
        "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
    // Where processes have other numbers it may be anything.
    const HeapFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat found {};
    HeapHead head;
    if (file.get() < 0 || ::fstat(file.get(), &found) != 0) {
        fail_in_common("cannot open " + path);
    }
    if (!S_ISREG(found.st_mode) || static_cast<Bytes>(found.st_size) != place.size ||
        ::pread(file.get(), &head, sizeof(head), 0) != sizeof(head) || head.token != place.token) {
        refuse_in_common(path + " is something else");
    }
    const auto heap = next_heap();
    heap->place_ = place;
    heap->place_.descriptor = -1;
    heap->map_privately(file.get());
    return heap;
}

void SharedHeap::end_unheld() {
    std::erase_if(kept_heaps(), [](const auto& heap) { return heap.use_count() == 1; });
}

/// Pages that are not changed are the file's own, once for all processes.
void SharedHeap::map_privately(int descriptor) {
    if (!map_at(place_.address, place_.size, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0)) {
        fail_in_common("its address is taken");
    }
    mapped_ = place_.size;
}

SharedHeap::~SharedHeap() {
    close();
    if (mapped_ > 0) {
        (void)::munmap(pointer_to(place_.address), mapped_);
    }
}

void SharedHeap::close() {
    if (place_.descriptor >= 0) {
        (void)::close(std::exchange(place_.descriptor, -1));
    }
}

void* SharedHeap::root() const {
    HeapHead head;
    std::memcpy(&head, pointer_to(place_.address), sizeof(head));
    return head.root;
}

void* allocate_in_shared_heap(std::size_t size) {
    return SharedHeap::Filling::current == nullptr ? nullptr
                                                   : SharedHeap::Filling::current->allocate(size);
}

bool is_in_shared_heap(const void* address) {
    const auto at = reinterpret_cast<std::uint64_t>(address);
    return at >= kFirst && at < kEnd;
}

}  // namespace shardweld
