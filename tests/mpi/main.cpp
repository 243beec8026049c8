// Runs the tests on all ranks in step; rank 0 alone prints, the failures of the others included.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "world.hpp"

namespace {

std::unique_ptr<shardweld::mpi::Comm>& world_owner() {
    static std::unique_ptr<shardweld::mpi::Comm> owner;
    return owner;
}

/// Gathers the failure texts of a test to rank 0 and fails the test there.
class FailureGatherer : public testing::EmptyTestEventListener {
  public:
    void OnTestStart(const testing::TestInfo& /*test*/) override { text_.clear(); }

    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed()) {
            const char* file = result.file_name() != nullptr ? result.file_name() : "?";
            text_ += std::string(file) + ":" + std::to_string(result.line_number()) + ": " +
                     result.message() + "\n";
        }
    }

    void OnTestEnd(const testing::TestInfo& /*test*/) override {
        auto& comm = shardweld::mpi::world();
        const auto* start = reinterpret_cast<const std::byte*>(text_.data());
        const auto all = comm.all_gather({start, text_.size()});
        for (std::size_t rank = 1; comm.rank() == 0 && rank < all.size(); ++rank) {
            if (!all[rank].empty()) {
                ADD_FAILURE() << "rank " << rank << ": "
                              << std::string(reinterpret_cast<const char*>(all[rank].data()),
                                             all[rank].size());
            }
        }
    }

  private:
    std::string text_;
};

int run_on_all_ranks() {
    world_owner() = shardweld::mpi::world_comm();
    auto& comm = shardweld::mpi::world();
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (comm.rank() != 0) {
        delete listeners.Release(listeners.default_result_printer());
        delete listeners.Release(listeners.default_xml_generator());
    }
    listeners.Append(new FailureGatherer);  // the listeners own it
    const auto result = comm.all_max(RUN_ALL_TESTS());
    world_owner().reset();
    return static_cast<int>(result);
}

}  // namespace

shardweld::mpi::Comm& shardweld::mpi::world() {
    return *world_owner();
}

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    try {
        return run_on_all_ranks();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "mpi_tests: %s\n", error.what());
        return 1;
    }
}
