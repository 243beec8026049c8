// Says what a checkpoint holds: `consumer DIR`. With more arguments it is the whole program.
#include <iostream>

#include "shardweld/app/program.hpp"
#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/mpi/comm.hpp"

int main(int argc, char** argv) {
    if (argc > 2) {
        return shardweld::app::run_program({argv, argv + argc});
    }
    const auto comm = shardweld::mpi::world_comm();
    shardweld::formats::InputRequest request;
    request.directory = argv[1];
    const auto location = shardweld::formats::locate(request);
    const auto catalogue = shardweld::formats::read_catalogue(location);
    if (comm->rank() == 0) {
        std::cout << location.format << ", " << catalogue.tensors.size() + catalogue.shards.size()
                  << " tensors, " << comm->size() << " ranks\n";
    }
    comm->barrier();
}
