#include "shardweld/execute/rates.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "shardweld/core/codec.hpp"
#include "shardweld/core/usage.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/mpi/share.hpp"

namespace shardweld::execute {

namespace {

constexpr Bytes kSmallRead = 4096;
constexpr Bytes kLargeRead = Bytes{1} << 20U;
constexpr Bytes kCopy = Bytes{2} << 20U;
constexpr Bytes kLargeMessage = Bytes{1} << 20U;
constexpr Bytes kSmallMessage = 8;
constexpr std::size_t kMostFiles = 3;
// Of local parts; the exchange has a fixed number of steps, the same on all ranks.
constexpr double kReadSeconds = 0.01;
constexpr int kMostRepeats = 16;
constexpr int kExchanges = 5;

double median(std::vector<double> values) {
    if (values.empty()) {
        return 0;
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double seconds_of(const std::function<void()>& work) {
    const double begin = wall_seconds();
    work();
    return wall_seconds() - begin;
}

/// What one rank measured, in seconds; negative: nothing.
struct Times {
    double small_read = -1;
    double large_read = -1;
    Bytes large_read_bytes = 0;
    double copy = -1;
    double small_message = -1;
    double large_message = -1;
};

std::vector<std::uint32_t> largest_files(const Source& source, const plan::Visibility& visibility,
                                         int rank) {
    std::vector<std::uint32_t> seen;
    for (std::uint32_t file = 0; file < source.files->size(); ++file) {
        if (visibility.sees(rank, file) && (*source.files)[file].size >= kSmallRead) {
            seen.push_back(file);
        }
    }
    const std::size_t n = std::min(seen.size(), kMostFiles);
    std::partial_sort(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(n), seen.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                          return (*source.files)[a].size > (*source.files)[b].size;
                      });
    seen.resize(n);
    return seen;
}

class Probe {
  public:
    Probe(mpi::Comm& comm, const Source& source, const plan::Visibility& visibility)
        : comm_(comm), source_(source), visibility_(visibility) {}

    plan::Rates run() {
        mpi::collectively(comm_, [&] {
            read();
            copy();
        });
        exchange();
        return agree();
    }

  private:
    void read() {
        std::vector<io::InputFile> files;
        for (const std::uint32_t file : largest_files(source_, visibility_, comm_.rank())) {
            files.push_back(io::InputFile::open(source_.directory / (*source_.files)[file].path));
        }
        // Ranks of one node read in different places, as they will.
        std::mt19937_64 random(static_cast<std::uint64_t>(comm_.rank()));
        files.erase(std::remove_if(files.begin(), files.end(),
                                   [](const auto& file) { return file.size() < kSmallRead; }),
                    files.end());
        if (files.empty()) {
            return;
        }
        const Bytes large = std::min(kLargeRead, files.front().size());
        buffer_.resize(std::max(kCopy, kLargeRead));
        mine_.small_read = time_reads(files, kSmallRead, random);
        mine_.large_read = time_reads(files, large, random);
        mine_.large_read_bytes = large;
    }

    double time_reads(const std::vector<io::InputFile>& files, Bytes size,
                      std::mt19937_64& random) {
        std::vector<double> times;
        double total = 0;
        for (std::size_t i = 0; i < kMostRepeats && total < kReadSeconds; ++i) {
            const io::InputFile& file = files[i % files.size()];
            if (file.size() < size) {
                continue;
            }
            const Bytes offset = random() % (file.size() - size + 1);
            times.push_back(
                seconds_of([&] { file.read_at(offset, std::span(buffer_).first(size)); }));
            total += times.back();
        }
        return median(std::move(times));
    }

    void copy() {
        buffer_.resize(std::max(kCopy, kLargeRead));
        std::vector<std::byte> to(kCopy);
        std::vector<double> times;
        for (int i = 0; i < kExchanges; ++i) {
            times.push_back(seconds_of([&] { std::memcpy(to.data(), buffer_.data(), kCopy); }));
            buffer_.front() = to.back();
        }
        mine_.copy = median(std::move(times));
    }

    void exchange() {
        if (comm_.size() == 1) {
            return;
        }
        mine_.small_message = time_exchange(kSmallMessage);
        mine_.large_message = time_exchange(kLargeMessage);
    }

    /// With the rank half of all ranks away: on another node where there are some. Of an odd number
    /// of ranks the last has no partner and its times do not count.
    double time_exchange(Bytes size) {
        const int half = comm_.size() / 2;
        const int partner = comm_.rank() < half ? comm_.rank() + half : comm_.rank() - half;
        const bool has_partner = comm_.rank() < 2 * half;
        const std::vector<std::byte> out(size);
        std::vector<std::byte> in(size);
        std::vector<std::span<const std::byte>> to_send(static_cast<std::size_t>(comm_.size()));
        std::vector<std::span<std::byte>> to_receive(to_send.size());
        if (has_partner) {
            to_send[static_cast<std::size_t>(partner)] = out;
            to_receive[static_cast<std::size_t>(partner)] = in;
        }
        std::vector<double> times;
        for (int i = 0; i < kExchanges; ++i) {
            times.push_back(
                seconds_of([&] { (void)comm_.exchange(to_send, to_receive, kLargeMessage); }));
        }
        return has_partner ? median(std::move(times)) : -1;
    }

    /// The same numbers lead to the same rates on all ranks.
    plan::Rates agree() {
        const std::vector<Times> all = mpi::gather(comm_, mine_);
        const auto agreed = [&](double Times::*field) {
            std::vector<double> values;
            for (const Times& times : all) {
                if (times.*field >= 0) {
                    values.push_back(times.*field);
                }
            }
            return median(std::move(values));
        };
        const auto rate = [](Bytes bytes, double seconds, double latency) {
            // The latency is a part of both; what is left may be noise.
            const double rest = std::max(seconds - latency, seconds / 2);
            return rest > 0 ? static_cast<double>(bytes) / rest : 0;
        };
        Bytes read = 0;
        for (const Times& times : all) {
            read = std::max(read, times.large_read_bytes);
        }
        plan::Rates rates;
        rates.read_latency_s = agreed(&Times::small_read);
        rates.read_bytes_s = rate(read, agreed(&Times::large_read), rates.read_latency_s);
        rates.copy_bytes_s = rate(kCopy, agreed(&Times::copy), 0);
        rates.message_latency_s = agreed(&Times::small_message);
        rates.exchange_bytes_s =
            rate(kLargeMessage, agreed(&Times::large_message), rates.message_latency_s);
        return rates;
    }

    mpi::Comm& comm_;
    const Source& source_;
    const plan::Visibility& visibility_;
    std::vector<std::byte> buffer_;
    Times mine_;
};

}  // namespace

plan::Rates measure_rates(mpi::Comm& comm, const Source& source,
                          const plan::Visibility& visibility) {
    return Probe(comm, source, visibility).run();
}

}  // namespace shardweld::execute
