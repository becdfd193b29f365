#include <gtest/gtest.h>
#include <thread>
#include <fmt/format.h>
#include "runtime/bootstrap_local.hpp"
#include "tutti/communicator.hpp"
#include "base/random.hpp"
#include "runtime/clock.hpp"
using namespace tutti;
static void fill(std::span<std::byte> s, uint64_t seed){ for(size_t i=0;i<s.size();++i) s[i]=std::byte(mix(seed*1000003+i/8)>>(i%8*8)); }
static void run(uint32_t P, std::vector<size_t> sizes, Algorithm alg, int reps){
  auto boots = runtime::make_local_bootstraps(P);
  std::vector<std::thread> ts;
  for (uint32_t r=0;r<P;++r) ts.emplace_back([&,r]{
    CommunicatorOptions o; o.create_timeout=std::chrono::seconds(20);
    auto c = Communicator::create(*boots[r], o);
    ASSERT_TRUE(c.ok()) << c.status().to_string();
    for (size_t n: sizes) for(int k=0;k<reps;++k){
      std::vector<std::byte> own(n), all(n*P), want(n);
      fill(own, r+k*100);
      auto q = c->allgather(own, all, {alg,true});
      ASSERT_TRUE(q.ok());
      auto t0=runtime::now();
      Status s = q->wait_for(std::chrono::seconds(10));
      if(r==0&&k==reps-1) fmt::print("P={} n={} {:.3f} ms\n",P,n,double((runtime::now()-t0).count())/1e6);
      ASSERT_TRUE(s.ok()) << s.to_string() << c->flight_record();
      for(uint32_t b=0;b<P;++b){ fill(want,b+k*100); ASSERT_EQ(0,memcmp(want.data(),all.data()+b*n,n)) << "rank "<<r<<" block "<<b<<" n="<<n; }
      for (uint32_t root=0; root<P; ++root){
        std::vector<std::byte> buf(n); fill(want,77+root+k); if(root==r) buf=want;
        auto b=c->broadcast(buf, Rank(root), {alg,true});
        s=b->wait_for(std::chrono::seconds(10)); ASSERT_TRUE(s.ok())<<s.to_string();
        ASSERT_EQ(buf,want)<<"bcast root "<<root<<" rank "<<r;
      }
    }
    if(r==0) for(auto&[k,v]:c->counters()) if(v) fmt::print("  {} {}\n",k,v);
    auto b=c->barrier(); (void)b->wait();
  });
  for(auto&t:ts)t.join();
}
TEST(Scratch, Multicast){ for(uint32_t P: {1u,2u,3u,4u,8u}) run(P,{0,1,100,5000,100000,1000003},Algorithm::multicast,3); }
TEST(Scratch, Ring){ for(uint32_t P: {1u,2u,3u,4u,8u}) run(P,{0,1,100,5000,100000,1000003},Algorithm::ring,3); }
