#include "shardweld/app/program.hpp"

int main(int argc, char** argv) {
    return shardweld::app::run_program({argv, argv + argc});
}
