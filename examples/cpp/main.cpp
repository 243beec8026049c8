// mpirun -n 4 merge_example CHECKPOINT MODEL_DIR OUTPUT [DTYPE]: merges, and prints what the
// library tells.
#include <iostream>
#include <shardweld/merge.hpp>

namespace {

class Printed : public shardweld::Events {
  public:
    void message(shardweld::LogLevel level, const std::string& text) override {
        if (level <= shardweld::LogLevel::warning) {
            std::cout << "message: " << text << '\n';
        }
    }
    void progress(const shardweld::PhaseProgress& state) override {
        if (state.done == state.total) {
            std::cout << "finished: " << state.phase << '\n';
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    shardweld::MpiSession mpi(argc, argv);
    shardweld::Request request;
    request.inputs = {argv[1]};
    request.options = {{"hf_config", argv[2]}, {"target_dir", argv[3]}};
    if (argc > 4) {
        request.options["dtype"] = argv[4];
    }
    Printed printed;
    try {
        const auto report = shardweld::merge(mpi.world(), request, printed);
        if (mpi.world().rank() == 0) {
            std::cout << report.outputs.front().tensors << " tensors in "
                      << report.outputs.front().files.size() << " files by " << mpi.world().size()
                      << " ranks\n";
        }
        return report.is_complete() ? 0 : 1;
    } catch (const shardweld::Error& error) {
        if (mpi.world().rank() == 0) {
            std::cout << "error " << static_cast<int>(error.code()) << ": " << error.what() << '\n';
        }
        return static_cast<int>(error.code());
    }
}
