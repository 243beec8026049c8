#include "plain_io.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "core/system.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/write_behind.hpp"
#include "shardweld/error.hpp"

#include "concatenated_files.hpp"

namespace shardweld::bench {

namespace {

constexpr Bytes kFile = 5'000'000'000;      // as --max_shard_size
constexpr Bytes kExtent = Bytes{1} << 20U;  // of one read and one write

/// Reads files one after the other, with one open at a time.
class ConcatenatedReader {
  public:
    explicit ConcatenatedReader(const ConcatenatedFiles& files) : files_(files) {}

    /// Fills `out` from a position among all files, across their ends. Error(corrupt) when a file
    /// has changed its size.
    void read(Bytes position, std::span<std::byte> out);
    /// The file of a part, for hints.
    const io::InputFile& file(std::size_t at);

  private:
    const ConcatenatedFiles& files_;
    io::InputFile open_;
    std::size_t at_ = 0;
};

/// Writes new files one after the other.
class ConcatenatedWriter {
  public:
    /// With `behind` what is written goes to the disk at once, and its pages are given back.
    ConcatenatedWriter(const ConcatenatedFiles& files, bool behind)
        : files_(files), is_behind_(behind) {}

    /// Makes every n-th file from `first` on, full-sized, with its space reserved.
    void create(std::size_t first, std::size_t every) const;
    void write(const FilePart& part, std::span<const std::byte> bytes);
    /// Closes all, checked; with `sync` each is fsynced before.
    void finish(bool sync);

  private:
    const ConcatenatedFiles& files_;
    struct OpenTarget {
        io::OutputFile file;
        io::WriteBehind behind;
    };
    bool is_behind_;
    std::map<std::size_t, OpenTarget> open_;
};

const io::InputFile& ConcatenatedReader::file(std::size_t at) {
    if (!open_.is_open() || at != at_) {
        open_ = io::InputFile::open(files_.files()[at].path);
        at_ = at;
        if (open_.size() != files_.files()[at].size) {
            throw Error(ErrorCode::corrupt,
                        open_.path().string() + " has changed while it was being measured: " +
                            std::to_string(open_.size()) + " bytes, " +
                            std::to_string(files_.files()[at].size) + " at the start");
        }
    }
    return open_;
}

void ConcatenatedReader::read(Bytes position, std::span<std::byte> out) {
    for (const FilePart& part : files_.parts({position, position + out.size()}, out.size())) {
        file(part.file).read_at(part.offset, out.subspan(part.position - position, part.size));
    }
}

void ConcatenatedWriter::create(std::size_t first, std::size_t every) const {
    for (std::size_t at = first; at < files_.files().size(); at += every) {
        const SizedFile& file = files_.files()[at];
        io::OutputFile out = io::OutputFile::create(file.path);
        out.resize(file.size);
        out.reserve(file.size);
        out.close();
    }
}

void ConcatenatedWriter::write(const FilePart& part, std::span<const std::byte> bytes) {
    auto found = open_.find(part.file);
    if (found == open_.end()) {
        const auto& path = files_.files()[part.file].path;
        found = open_.emplace(part.file, OpenTarget{io::OutputFile::open_existing(path), {}}).first;
    }
    OpenTarget& open = found->second;
    open.file.write_at(part.offset, bytes);
    if (is_behind_) {
        open.behind.add(open.file, part.offset, bytes.size());
    }
}

void ConcatenatedWriter::finish(bool sync) {
    for (auto& [at, open] : open_) {
        if (sync) {
            open.behind.finish(open.file);
            open.file.sync();
        }
        open.file.close();
    }
    open_.clear();
}

/// Bytes without a short period: file systems that compress or look for equal blocks gain nothing.
std::vector<std::byte> noise(Bytes size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    std::uint64_t state = seed;
    for (std::byte& byte : bytes) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        byte = static_cast<std::byte>(state >> 56U);
    }
    return bytes;
}

// Bounds the list of pages that mincore fills.
constexpr Bytes kWindow = Bytes{1} << 30U;

Bytes page_bytes() {
    return static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

/// Cached bytes of [begin, end), which lies in one window; its first page is mapped whole.
Bytes cached_in_window(int fd, Bytes begin, Bytes end) {
    const Bytes page = page_bytes();
    const Bytes first = begin / page * page;
    void* const mapped =
        ::mmap(nullptr, end - first, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first));
    if (mapped == MAP_FAILED) {
        return end - begin;
    }
    std::vector<unsigned char> resident((end - first + page - 1) / page, 1);
    const bool told = ::mincore(mapped, end - first, resident.data()) == 0;
    ::munmap(mapped, end - first);
    if (!told) {
        return end - begin;
    }
    Bytes total = 0;
    for (std::size_t i = 0; i < resident.size(); ++i) {
        const Bytes at = first + i * page;
        total += (resident[i] & 1U) != 0 ? std::min(at + page, end) - std::max(at, begin) : 0;
    }
    return total;
}

/// Bytes of a part of a file that are in the page cache. Where the system does not tell, all count:
/// it tells of files that one owns or may write (mincore(2)).
Bytes cached_bytes(int fd, Bytes offset, Bytes size) {
    Bytes total = 0;
    for (Bytes at = offset; at < offset + size;) {
        const Bytes end = std::min(offset + size, (at / kWindow + 1) * kWindow);
        total += cached_in_window(fd, at, end);
        at = end;
    }
    return total;
}

/// One rank's side of a bench.
class Runner {
  public:
    Runner(mpi::Comm& comm, const PlainIo& bench)
        : comm_(comm),
          bench_(bench),
          target_(ConcatenatedFiles::make(bench.directory, bench.source.size(), kFile)),
          // Also the first touch of its pages, which is what costs most.
          buffer_(noise(kExtent, static_cast<std::uint64_t>(comm.rank()))) {}

    /// A target is removed right before the next one is made: pages that the system has just got
    /// back are the cheapest new ones, for all passes alike.
    Measured run() {
        if (!bench_.copies_only) {
            time(measured_.write, [&] { write(); });
            drop_from_cache();
            time(measured_.read, [&] { read(); });
            remove_target();
        }
        drop_from_cache();
        time(measured_.copy, [&] { copy(false); });
        remove_target();
        drop_from_cache();
        time(measured_.copy_behind, [&] { copy(true); });
        remove_target();
        return std::move(measured_);
    }

  private:
    [[nodiscard]] ByteRange own_part(const ConcatenatedFiles& files) const {
        return files.share(comm_.rank(), comm_.size());
    }

    /// From barrier to barrier; processor time without the waiting in the last one.
    void time(Pass& pass, const std::function<void()>& body) {
        constexpr double kNano = 1e9;
        comm_.barrier();
        const double wall = wall_seconds();
        body();
        const auto wall_ns = static_cast<Index>((wall_seconds() - wall) * kNano);
        pass.bytes = target_.size();
        pass.wall_s = static_cast<double>(comm_.all_max(wall_ns)) / kNano;
        pass.cpu_s = static_cast<double>(comm_.all_sum(cpu_ns_)) / kNano;
        cpu_ns_ = 0;
    }

    /// A part of a pass that ends with all ranks together.
    void step(const std::function<void()>& local) {
        mpi::collectively(comm_, [&] {
            const double cpu = cpu_seconds();
            local();
            cpu_ns_ += static_cast<Index>((cpu_seconds() - cpu) * 1e9);
        });
    }

    void create(ConcatenatedWriter& out) {
        step([&] {
            out.create(static_cast<std::size_t>(comm_.rank()),
                       static_cast<std::size_t>(comm_.size()));
        });
    }

    void write() {
        ConcatenatedWriter out(target_, false);
        create(out);
        step([&] {
            for (const FilePart& part : target_.parts(own_part(target_), kExtent)) {
                out.write(part, std::span(buffer_).first(part.size));
            }
            out.finish(bench_.sync);
        });
    }

    void read() {
        step([&] {
            ConcatenatedReader in(bench_.source);
            for (const FilePart& part : bench_.source.parts(own_part(bench_.source), kExtent)) {
                in.read(part.position, std::span(buffer_).first(part.size));
            }
        });
    }

    void copy(bool behind) {
        ConcatenatedWriter out(target_, behind);
        create(out);
        step([&] {
            ConcatenatedReader in(bench_.source);
            for (const FilePart& part : target_.parts(own_part(target_), kExtent)) {
                const auto bytes = std::span(buffer_).first(part.size);
                in.read(part.position, bytes);
                out.write(part, bytes);
            }
            out.finish(bench_.sync);
        });
    }

    /// This rank's share of the source, one part for each file.
    [[nodiscard]] std::vector<FilePart> whole_parts() const {
        return bench_.source.parts(own_part(bench_.source),
                                   std::max<Bytes>(bench_.source.size(), 1));
    }

    void drop_from_cache() {
        if (!bench_.is_cold) {
            return;
        }
        Bytes stayed = 0;
        mpi::collectively(comm_, [&] {
            ConcatenatedReader in(bench_.source);
            for (const FilePart& part : whole_parts()) {
                in.file(part.file).forget(part.offset, part.size);
            }
        });
        mpi::collectively(comm_, [&] {
            ConcatenatedReader in(bench_.source);
            for (const FilePart& part : whole_parts()) {
                stayed += cached_bytes(in.file(part.file).fd(), part.offset, part.size);
            }
        });
        const auto in_all = static_cast<Bytes>(comm_.all_sum(static_cast<Index>(stayed)));
        measured_.stayed_cached = std::max(measured_.stayed_cached, in_all);
    }

    void remove_target() {
        mpi::collectively(comm_, [&] {
            for (std::size_t at = 0; comm_.rank() == 0 && at < target_.files().size(); ++at) {
                fs::remove(target_.files()[at].path);
            }
        });
    }

    mpi::Comm& comm_;
    const PlainIo& bench_;
    ConcatenatedFiles target_;
    std::vector<std::byte> buffer_;
    Measured measured_;
    Index cpu_ns_ = 0;
};

}  // namespace

double Pass::gbs() const {
    return wall_s > 0 ? static_cast<double>(bytes) / 1e9 / wall_s : 0;
}

const Pass& Measured::roof() const {
    return copy.gbs() < copy_behind.gbs() ? copy_behind : copy;
}

Measured measure(mpi::Comm& comm, const PlainIo& bench) {
    return Runner(comm, bench).run();
}

}  // namespace shardweld::bench
