#include "shardweld/execute/run.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <system_error>

#include "shardweld/core/codec.hpp"
#include "shardweld/core/usage.hpp"
#include "shardweld/mpi/free_run.hpp"
#include "shardweld/mpi/share.hpp"
#include "shardweld/plan/plan.hpp"
#include "shardweld/plan/rounds.hpp"

#include "prefetch.hpp"
#include "reader.hpp"
#include "reuse.hpp"
#include "round.hpp"
#include "tally.hpp"
#include "writer.hpp"

namespace shardweld::execute {

namespace {

/// One rank's side of a run: buffers, open files and counters.
class Worker {
  public:
    Worker(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
           const io::Directory& directory, const RunOptions& options)
        : comm_(comm),
          plan_(plan),
          options_(options),
          reader_(source, plan.limits.scratch),
          compare_reader_(source, plan.limits.compare),
          writer_(plan, source, directory, options, comm.rank()),
          directory_(directory),
          throttle_(source.throttle),
          buffers_{RoundBuffers(plan.limits), RoundBuffers(plan.limits)} {}

    /// What an earlier run has done is taken over.
    void take_over() {
        done_ = reuse(
            comm_, plan_, directory_, options_,
            [&](const DoneBlock& block, const plan::Slice& slice,
                std::span<const std::byte> bytes) {
                if (throttle_) {
                    throttle_->take(bytes.size());
                }
                writer_.put_done(block, slice, bytes);
            },
            mine_);
        const plan::LineRange mine{plan_.cuts[own()], plan_.cuts[own() + 1]};
        done_bytes_ = mine.end - mine.begin - plan::total_of(plan::without(mine, done_));
        tell_progress();
    }

    /// A run that ends early keeps what it has done.
    void run() {
        try {
            if (plan_.is_lockstep) {
                run_in_lockstep();
            } else {
                run_alone();
            }
        } catch (const Error& error) {
            if (error.code() == ErrorCode::stopped) {
                mpi::collectively(comm_, [&] { writer_.flush(); });
            } else if (error.code() != ErrorCode::launch) {
                // Agreed by all ranks; none may go on to remove what others still write.
                writer_.keep();
                comm_.barrier();
            }
            throw;
        }
    }

    void close() {
        const double begin = wall_seconds();
        mpi::collectively(comm_, [&] {
            reader_.finish();
            compare_reader_.finish();
            writer_.close();
        });
        mine_.write_s += wall_seconds() - begin;
        if (options_.write) {
            require_each_byte_once(plan_, gathered(comm_, writer_.tally(mine_.bytes_reused)),
                                   done_);
        }
    }

    /// Everybody's counters and differences, on every rank.
    Result result(double wall_s, double cpu_s) {
        mine_.peak_bytes = peak_bytes();
        mine_.buffer_bytes = buffer_bytes();
        mine_.bytes_read = reader_.bytes_read() + compare_reader_.bytes_read();
        mine_.bytes_written = writer_.bytes_written();
        mine_.wall_s = wall_s;
        mine_.cpu_s = cpu_s;
        Result result;
        share(result);
        if (options_.digests) {
            result.tensor_digests = writer_.gather_digests(comm_);
            result.quality = writer_.gather_quality(comm_);
        }
        result.written = writer_.take_written();
        return result;
    }

  private:
    [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(comm_.rank()); }

    /// Ranks go through common rounds; an error is agreed before the next one.
    void run_in_lockstep() {
        Prefetch rounds(plan_, plan::Rounds(plan_, done_), comm_.rank(), reader_);
        std::future<Round> next;
        std::optional<Error> failure = mpi::error_of([&] { next = start_reading(rounds); });
        while (true) {
            Round round;
            mpi::collectively(comm_, [&] {
                if (failure) {
                    throw Error(*failure);
                }
                mpi::stop_if_asked(options_.why_stop);
                round = next.get();
            });
            if (round.ranges.empty()) {
                return;
            }
            // An error waits for the next meeting of all ranks.
            failure = mpi::error_of([&] { next = start_reading(rounds); });
            exchange(round);
            if (!failure) {
                failure = mpi::error_of([&] { finish(round); });
            }
        }
    }

    /// Ranks go their own way.
    void run_alone() {
        Prefetch rounds(plan_, plan::Rounds(plan_, comm_.rank(), done_), comm_.rank(), reader_);
        std::future<Round> next;
        mpi::run_freely(comm_, options_.why_stop, [&](const mpi::OnStep& step) {
            step();
            next = start_reading(rounds);
            for (Round round = next.get(); !round.ranges.empty(); round = next.get()) {
                next = start_reading(rounds);
                finish(round);
                step();
            }
        });
    }

    /// Lays out the next round and reads for it: in a thread of its own, beside what happens to the
    /// round before, where the plan has memory for that; else when it is asked for.
    std::future<Round> start_reading(Prefetch& rounds) {
        const bool is_ahead = plan_.limits.ahead > 0;
        RoundBuffers& buffers = buffers_[is_ahead ? n_started_++ % buffers_.size() : 0];
        try {
            return std::async(is_ahead ? std::launch::async : std::launch::deferred,
                              [this, &rounds, &buffers] { return read_next(rounds, buffers); });
        } catch (const std::system_error& error) {
            // A thread's stack is memory, its number is limited.
            throw Error(error.code() == std::errc::resource_unavailable_try_again
                            ? ErrorCode::memory
                            : ErrorCode::internal,
                        std::string("cannot start a thread: ") + error.what(),
                        "give the job more memory or take --read_ahead no");
        }
    }

    Round read_next(Prefetch& rounds, RoundBuffers& buffers) {
        std::vector<plan::LineRange> ranges;
        if (!rounds.next(ranges)) {
            return {};
        }
        Round round = make_round(plan_, std::move(ranges), rounds.term(), comm_.rank(), buffers);
        const double begin = wall_seconds();
        reader_.read(std::move(round.reads));
        round.read_s = wall_seconds() - begin;
        return round;
    }

    void exchange(const Round& round) {
        const double begin = wall_seconds();
        for (std::size_t rank = 0; rank < round.to_send.size(); ++rank) {
            mine_.bytes_sent += rank == own() ? 0 : round.to_send[rank].size();
        }
        mine_.exchange_steps +=
            comm_.exchange(round.to_send, round.to_receive, plan_.limits.message);
        mine_.exchange_s += wall_seconds() - begin;
    }

    /// Unpacks, compares replicas, converts and puts out.
    void finish(Round& round) {
        const plan::LineRange range = round.ranges[own()];
        mine_.read_s += round.read_s;
        for (const Unpack& part : round.unpacks) {
            layout::run(part.copy, part.element_bytes, part.src, part.dst);
        }
        for (const Unpack& part : round.unpack_compares) {
            *part.n_different +=
                layout::count_different(part.copy, part.element_bytes, part.src, part.dst);
        }
        compare_reader_.read(std::move(round.compares));
        for (const ComparedReplica& one : round.compared) {
            note_difference(one);
        }
        if (writer_.is_wanted() && range.begin < range.end) {
            const double begin = wall_seconds();
            writer_.put(round, range);
            mine_.write_s += wall_seconds() - begin;
        }
        ++mine_.rounds;
        if (round.term + 1 < plan_.n_terms) {
            return;
        }
        done_bytes_ += range.end - range.begin;
        tell_progress();
    }

    void tell_progress() const {
        if (options_.on_progress) {
            options_.on_progress(done_bytes_);
        }
    }

    [[nodiscard]] Bytes buffer_bytes() const {
        return buffers_[0].used() + buffers_[1].used() + reader_.buffer_bytes() +
               compare_reader_.buffer_bytes() + writer_.buffer_bytes();
    }

    void note_difference(const ComparedReplica& one) {
        if (one.n_different == 0) {
            return;
        }
        // A later run must meet them again.
        writer_.stop_journal();
        for (Difference& known : differences_) {
            if (known.target == one.target && known.replica == one.replica) {
                known.n_elements += one.n_different;
                return;
            }
        }
        differences_.push_back({one.target, one.replica, one.n_different});
    }

    void share(Result& result) {
        for (auto& [counts, host] : mpi::gather(comm_, std::pair(mine_, comm_.host()))) {
            result.ranks.push_back({counts, std::move(host)});
        }
        result.differences = mpi::gather_all(comm_, differences_);
    }

    mpi::Comm& comm_;
    const plan::Plan& plan_;
    const RunOptions& options_;
    Reader reader_;
    Reader compare_reader_;  ///< of replicas, while the other may be busy with the next round
    Writer writer_;
    const io::Directory& directory_;
    std::shared_ptr<io::Throttle> throttle_;
    std::array<RoundBuffers, 2> buffers_;
    std::size_t n_started_ = 0;  ///< rounds read ahead
    RankCounts mine_;
    std::vector<Difference> differences_;
    std::vector<plan::LineRange> done_;  ///< by an earlier run
    Bytes done_bytes_ = 0;
};

}  // namespace

Result run(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
           const io::Directory& directory, const RunOptions& options) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    Worker worker(comm, plan, source, directory, options);
    worker.take_over();
    worker.run();
    worker.close();
    return worker.result(wall_seconds() - wall, cpu_seconds() - cpu);
}

}  // namespace shardweld::execute
