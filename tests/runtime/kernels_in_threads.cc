// Eight threads look up and call the function of one module, and save and load it.

#include "kernel_module.cc"

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

std::atomic<int> engines_made{0};

Function MakeTwice(String, Bytes, Constants) {
  ++engines_made;
  return Function::FromTyped([](int64_t x) { return 2 * x; });
}

int Caller(const Module& kernel, int64_t number) {
  int wrong = 0;
  for (int64_t round = 0; round < 200; ++round) {
    Function twice = kernel->GetFunction("kernel").value();
    wrong += twice(number + round).cast<int64_t>() != 2 * (number + round);
    Module copy = Load(kernel->SaveToBytes());
    wrong += !copy->ImplementsFunction("kernel");
  }
  return wrong;
}

}  // namespace

int main() {
  Function::SetGlobal("collage.engine.test", Function::FromTyped(MakeTwice));
  Module kernel = Create("kernel", "test", Bytes(std::string(100, 'x')), {});
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int number = 0; number < 8; ++number) {
    callers.emplace_back([&, number] { wrong += Caller(kernel, number); });
  }
  for (std::thread& caller : callers) caller.join();
  wrong += engines_made != 1;
  std::printf("%d wrong\n", wrong.load());
  return wrong != 0;
}
