//! Figure 5d: the push thread, which can die before any line that another process could notice.

use super::pthreads::Pthreads;
use super::state::{Death, Died, Learner, Mapping, read, write};

/// Lines 201 to 223, for `rounds` rounds of the loop.
pub fn push<M: Pthreads>(mapping: &Mapping<M>, learner: &Learner<M>, rounds: u32) {
    // 202. while(true){
    for _ in 0..rounds {
        push_once(mapping, learner, Death::NEVER).expect("it never dies");
    }
}

/// Lines 203 to 222, or as far as it lives.
pub fn push_once<M: Pthreads>(
    mapping: &Mapping<M>,
    learner: &Learner<M>,
    death: Death,
) -> Result<(), Died> {
    let env = &mapping.g_env[learner.tid];
    death.pass(203, ())?;
    // 203. pthread_mutex_lock(&pushMtx);
    let mut push = M::mutex_lock(&learner.push_mtx);
    // 204. while(pushCnt == 0){
    while push.push_cnt == 0 {
        // 205. pthread_cond_wait(&pushFill, &pushMtx);
        push = M::cond_wait(&learner.push_fill, push);
    }
    death.pass(207, ())?;
    // 207. pthread_mutex_lock(&(g_env[tid].gradMtx));
    let grad = M::mutex_lock(&env.grad_mtx);
    let mut grad = death.pass(208, grad)?;
    // 208. while ((g_env[tid].cnt) == (g_env[tid].sz)){
    while *grad as usize == env.sz {
        // 209. pthread_cond_wait(&(g_env[tid].gradEmpty),
        // 210.    &(g_env[tid].gradMtx));
        grad = M::cond_wait(&env.grad_empty, grad);
    }
    let grad = death.pass(212, grad)?;
    // 212. pthread_mutex_unlock(&(g_env[tid].gradMtx));
    M::mutex_unlock(grad);
    death.pass(213, ())?;
    // 213. cudaMemcpy(g_buf[tid][g_env[tid].fill_ptr], ...);
    // 214. cudasyncStream(...);
    write::<M, _>(&mapping.g_buf[learner.tid][read::<M, _>(&env.fill_ptr)], push.grad_buf_gpu);
    death.pass(215, ())?;
    // 215. (g_env[tid]).fill_ptr =
    // 216.    ((g_env[tid]).fill_ptr + 1) % g_env[tid].sz;
    write::<M, _>(&env.fill_ptr, (read::<M, _>(&env.fill_ptr) + 1) % env.sz);
    death.pass(217, ())?;
    // 217. pthread_mutex_lock(&(g_env[tid].gradMtx));
    let grad = M::mutex_lock(&env.grad_mtx);
    let mut grad = death.pass(218, grad)?;
    // 218. g_env[tid].cnt++;
    mapping.ledger().count(push.grad_buf_gpu);
    let cnt = *grad;
    mapping.set_cnt(learner.tid, &mut grad, cnt + 1);
    let grad = death.pass(219, grad)?;
    // 219. pthread_mutex_unlock(&(g_env[tid].gradMtx));
    M::mutex_unlock(grad);
    death.pass(220, ())?;
    // 220. pushCnt--;
    push.push_cnt -= 1;
    // 221. pthread_cond_signal(&pushEmpty);
    M::cond_signal(&learner.push_empty);
    // 222. pthread_mutex_unlock(&pushMtx);
    M::mutex_unlock(push);
    Ok(())
}
