#include "run.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "core/error_of.hpp"
#include "core/process/system.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"

#include "output_task.hpp"
#include "prefetch.hpp"
#include "reader.hpp"
#include "round.hpp"

namespace shardweld::execute {

namespace {

/// A thread that does one thing after another, so that a round costs no new one. The end waits for
/// what is in hand.
class ReadingThread {
  public:
    ReadingThread() = default;
    ReadingThread(const ReadingThread&) = delete;
    ReadingThread& operator=(const ReadingThread&) = delete;
    ~ReadingThread() {
        if (thread_.joinable()) {
            give({});
            thread_.join();
        }
    }

    /// std::system_error.
    std::future<Round> start(std::packaged_task<Round()> task) {
        if (!thread_.joinable()) {
            thread_ = std::thread([this] { work(); });
        }
        std::future<Round> result = task.get_future();
        give(std::move(task));
        return result;
    }

  private:
    void give(std::packaged_task<Round()> task) {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        is_given_.notify_one();
    }

    void work() {
        while (true) {
            std::unique_lock lock(mutex_);
            // GCC 12's `wait` without a time needs a newer libstdc++ than RHEL 9 has.
            while (tasks_.empty()) {
                (void)is_given_.wait_for(lock, std::chrono::hours(1));
            }
            std::packaged_task<Round()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            if (!task.valid()) {
                return;
            }
            task();
        }
    }

    std::mutex mutex_;
    std::condition_variable is_given_;
    std::deque<std::packaged_task<Round()>> tasks_;  ///< an empty one is the end
    std::thread thread_;
};

/// One rank's side of a run: buffers, open files and counters.
class Worker {
  public:
    Worker(mpi::Comm& comm, std::span<const OutputWork> outputs, const SourceFiles& source)
        : comm_(comm),
          plan_(outputs.front().plan),
          options_(outputs.front().options),
          source_(source),
          reader_(source, plan_.limits.scratch),
          compare_reader_(source, plan_.limits.compare),
          buffers_{RoundBuffers(plan_.limits), RoundBuffers(plan_.limits)} {
        for (const OutputWork& output : outputs) {
            tasks_.emplace_back(output, source, comm.rank(), outputs.size() > 1 ? &plan_ : nullptr);
        }
        if (options_.begin_journal) {
            begin_journal_late();
        }
    }

    /// What an earlier run has done is taken over: a round is left out when all outputs have it.
    /// One that is stopped meanwhile keeps what it has seen.
    void take_over() {
        try {
            read_back();
        } catch (const Error& error) {
            if (error.code() == ErrorCode::stopped) {
                keep_all();
            }
            throw;
        }
    }

    void read_back() {
        std::vector<std::vector<plan::OutputRange>> done;
        for (OutputTask& task : tasks_) {
            task.take_over(comm_, source_);
            done.push_back(task.done_of_primary());
        }
        done_ = plan::in_all({0, plan_.space.begins.back()}, done);
        const plan::OutputRange mine{plan_.cuts[own()], plan_.cuts[own() + 1]};
        done_bytes_ = mine.end - mine.begin - plan::total_of(plan::without(mine, done_));
        tell_progress();
    }

    /// A run that ends early keeps what it has done.
    void run() {
        try {
            mpi::collectively(comm_, [&] {
                for (OutputTask& task : tasks_) {
                    task.put_constants(comm_);
                }
            });
            if (plan_.is_lockstep) {
                run_in_lockstep();
            } else {
                run_alone();
            }
        } catch (const Error& error) {
            if (error.code() == ErrorCode::launch) {
                throw;
            }
            // Where it cannot be begun nothing is written down.
            (void)error_of([&] { end_late_journal(true); });
            if (error.code() == ErrorCode::stopped) {
                flush_all();
            } else {
                keep_all();
            }
            throw;
        }
        end_late_journal(false);
    }

    void end_late_journal(bool is_early) {
        mpi::collectively(comm_, [&] {
            if (late_journal_.valid()) {
                is_over_.set_value();
                if (!late_journal_.get() && is_early) {
                    options_.begin_journal();
                }
            }
        });
    }

    void flush_all() {
        mpi::collectively(comm_, [&] {
            for (OutputTask& task : tasks_) {
                task.writer().flush();
            }
        });
    }

    /// Agreed by all ranks; none may go on to remove what others still write.
    void keep_all() {
        for (OutputTask& task : tasks_) {
            task.writer().keep();
        }
        comm_.barrier();
    }

    void close() {
        const double begin = wall_seconds();
        mpi::collectively(comm_, [&] {
            reader_.finish();
            compare_reader_.finish();
            for (OutputTask& task : tasks_) {
                task.writer().close();
            }
        });
        mine_.write_s += wall_seconds() - begin;
        for (const OutputTask& task : tasks_) {
            task.require_whole(comm_);
        }
    }

    /// Everybody's counters and differences, on every rank, by output.
    std::vector<Result> results(double wall_s, double cpu_s) {
        mine_.peak_bytes = peak_bytes();
        mine_.buffer_bytes = buffer_bytes();
        mine_.bytes_read = reader_.bytes_read() + compare_reader_.bytes_read();
        mine_.wall_s = wall_s;
        mine_.cpu_s = cpu_s;
        const auto differences = mpi::gather_all(comm_, differences_);
        std::vector<Result> results;
        for (OutputTask& task : tasks_) {
            Result& result = results.emplace_back();
            share(task.counts(), result);
            result.differences = differences;
            if (task.has_digests()) {
                result.tensor_digests = task.writer().gather_digests(comm_);
                result.quality = task.writer().gather_quality(comm_);
            }
            result.written = task.writer().take_written();
        }
        return results;
    }

  private:
    /// In a thread: nothing that this rank reads or writes may hold it up.
    void begin_journal_late() {
        auto begin = [this, is_over = is_over_.get_future()] {
            // Before any rank looks for it: NFS remembers for a while that a name was not there.
            constexpr std::chrono::duration<double> kWhile(kUnsyncedSeconds * 3 / 4);
            const bool is_due = is_over.wait_for(kWhile) == std::future_status::timeout;
            if (is_due) {
                options_.begin_journal();
            }
            return is_due;
        };
        late_journal_ = std::async(std::launch::async | std::launch::deferred, std::move(begin));
    }

    [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(comm_.rank()); }

    /// Ranks go through common rounds; an error is agreed before the next one.
    void run_in_lockstep() {
        Prefetch rounds(plan_, plan::Rounds(plan_, done_), comm_.rank(), reader_);
        ReadingThread thread;
        std::future<Round> next;
        std::optional<Error> failure = error_of([&] { next = start_reading(rounds, thread); });
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
            failure = error_of([&] { next = start_reading(rounds, thread); });
            exchange(round);
            if (!failure) {
                failure = error_of([&] { finish(round); });
            }
        }
    }

    /// Ranks go their own way.
    void run_alone() {
        Prefetch rounds(plan_, plan::Rounds(plan_, comm_.rank(), done_), comm_.rank(), reader_);
        ReadingThread thread;
        std::future<Round> next;
        mpi::run_freely(comm_, options_.why_stop, [&](const mpi::OnStep& step) {
            step();
            next = start_reading(rounds, thread);
            for (Round round = next.get(); !round.ranges.empty(); round = next.get()) {
                next = start_reading(rounds, thread);
                finish(round);
                step();
            }
        });
    }

    /// Lays out the next round and reads for it: in the thread, beside what happens to the round
    /// before, where the plan has memory for that; else when it is asked for.
    std::future<Round> start_reading(Prefetch& rounds, ReadingThread& thread) {
        const bool is_ahead = plan_.limits.ahead > 0;
        RoundBuffers& buffers = buffers_[is_ahead ? n_started_++ % buffers_.size() : 0];
        const auto read = [this, &rounds, &buffers] { return read_next(rounds, buffers); };
        try {
            return is_ahead ? thread.start(std::packaged_task<Round()>(read))
                            : std::async(std::launch::deferred, read);
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
        std::vector<plan::OutputRange> ranges;
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
        for (const std::size_t rank : indices(round.to_send)) {
            mine_.bytes_sent += rank == own() ? 0 : round.to_send[rank].size();
        }
        mine_.exchange_steps +=
            comm_.exchange(round.to_send, round.to_receive, plan_.limits.message);
        mine_.exchange_s += wall_seconds() - begin;
    }

    /// Unpacks, compares replicas, converts and puts out.
    void finish(Round& round) {
        const plan::OutputRange range = round.ranges[own()];
        mine_.read_s += round.read_s;
        for (const auto& unpacks : {std::span(round.unpacks), std::span(round.unpack_compares)}) {
            for (const Unpack& part : unpacks) {
                part.move.carry_out(part.move.copy, part.message);
            }
        }
        compare_reader_.read(std::move(round.compares));
        for (const Difference& one : round.compared) {
            note_difference(one);
        }
        if (range.begin < range.end) {
            const double begin = wall_seconds();
            for (OutputTask& task : tasks_) {
                task.write_round(round, range);
            }
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
        Bytes bytes = buffers_[0].used() + buffers_[1].used() + reader_.buffer_bytes() +
                      compare_reader_.buffer_bytes();
        for (const OutputTask& task : tasks_) {
            bytes += task.buffer_bytes();
        }
        return bytes;
    }

    void note_difference(const Difference& one) {
        if (one.n_elements == 0) {
            return;
        }
        // Replicas are compared again by a later run, which must not find them in the journal.
        for (OutputTask& task : tasks_) {
            task.writer().stop_journal();
        }
        for (Difference& known : differences_) {
            if (known.target == one.target && known.replica == one.replica) {
                known.n_elements += one.n_elements;
                return;
            }
        }
        differences_.push_back(one);
    }

    void share(const RankCounts& own, Result& result) {
        RankCounts all = mine_;
        all.bytes_written = own.bytes_written;
        all.blocks_reused = own.blocks_reused;
        all.bytes_reused = own.bytes_reused;
        all.bytes_seen = own.bytes_seen;
        all.bytes_damaged = own.bytes_damaged;
        for (auto& [counts, host] : mpi::gather(comm_, std::pair(all, comm_.host()))) {
            result.ranks.push_back({counts, std::move(host)});
        }
    }

    mpi::Comm& comm_;
    const plan::Plan& plan_;
    const RunOptions& options_;
    const SourceFiles& source_;
    Reader reader_;
    Reader compare_reader_;  ///< of replicas, while the other may be busy with the next round
    std::deque<OutputTask> tasks_;
    std::future<bool> late_journal_;  ///< whether it has begun
    std::promise<void> is_over_;      ///< gone before that, which ends the wait
    std::array<RoundBuffers, 2> buffers_;
    std::size_t n_started_ = 0;  ///< rounds read ahead
    RankCounts mine_;
    std::vector<Difference> differences_;
    std::vector<plan::OutputRange> done_;  ///< by an earlier run, of all outputs
    Bytes done_bytes_ = 0;
};

}  // namespace

std::vector<Result> run(mpi::Comm& comm, std::span<const OutputWork> outputs,
                        const SourceFiles& source) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    Worker worker(comm, outputs, source);
    worker.take_over();
    worker.run();
    worker.close();
    return worker.results(wall_seconds() - wall, cpu_seconds() - cpu);
}

Result run(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
           const io::Directory& directory, const RunOptions& options) {
    const OutputWork output{plan, directory, options};
    return std::move(run(comm, std::span(&output, 1), source).front());
}

}  // namespace shardweld::execute
