#include "core/process/system.hpp"

#include "comm.hpp"
#include "messages.hpp"

namespace shardweld::mpi {

namespace {

class SerialComm final : public Comm {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] const std::string& host() const override { return host_; }
    [[nodiscard]] std::string library() const override { return "none"; }
    std::unique_ptr<Comm> split(int /*part*/) override { return std::make_unique<SerialComm>(); }
    void abort(int /*code*/) override {}

    void barrier() override {}
    ByteBuffer broadcast(ByteBuffer bytes, int /*root*/) override { return bytes; }
    std::vector<ByteBuffer> all_gather(ByteView mine) override {
        return {ByteBuffer(mine.begin(), mine.end())};
    }
    Index all_max(Index value) override { return value; }
    Index all_sum(Index value) override { return value; }

    Index exchange(std::span<const ByteView> to_send, std::span<const ByteSpan> to_receive,
                   Bytes limit) override {
        const Messages messages{to_send, to_receive};
        if (const char* fault = fault_of(messages, limit, rank(), size())) {
            throw Error(ErrorCode::internal, fault);
        }
        copy_own(messages, rank());
        return 0;
    }

    void raise_alarm() override { alarm_ = true; }
    bool alarm() override {
        pulse().beat();
        return alarm_;
    }
    void end_of_free_run(const std::function<bool()>& /*wants_alarm*/) override { alarm_ = false; }

  private:
    std::string host_ = host_name();
    bool alarm_ = false;
};

}  // namespace

std::unique_ptr<Comm> serial_comm() {
    return std::make_unique<SerialComm>();
}

}  // namespace shardweld::mpi
