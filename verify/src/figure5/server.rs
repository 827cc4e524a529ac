//! Figure 5a: the parameter server's thread.

use protocol::platform::Word;
use protocol::site::Site;

use super::pthreads::Pthreads;
use super::state::{Gradient, Mapping, read, write};

/// Lines 1 to 17, until `gradients` are processed: the server's "fixed number" of Section 4.3.
pub fn server<M: Pthreads>(mapping: &Mapping<M>, gradients: usize) {
    let worker_num = mapping.g_env.len();
    let mut idx = 0;
    let mut processed = 0;
    // 2. while (true) {
    while processed < gradients {
        let env = &mapping.g_env[idx];
        // 3. if (g_env[idx].cnt == 0) {
        if mapping.unlocked_cnt(idx) == 0 {
            // 4. idx = (idx + 1) % workerNum;
            idx = (idx + 1) % worker_num;
            // A busy loop: the checker must be told that nothing was found.
            M::pause();
        // 5. } else {
        } else {
            // 6. float* src = g_buf[idx][g_env[idx].use_ptr];
            let src = &mapping.g_buf[idx][read::<M, _>(&env.use_ptr)];
            // 7. update(g_param_ptr, src, ...);
            update(mapping, read::<M, _>(src));
            // 8. g_param_version++;
            mapping.g_param_version.fetch_add(Site::Caller, 1, mapping.memory.store());
            // 9. (g_env[idx]).use_ptr =
            // 10.    ((g_env[idx]).use_ptr + 1) % (g_env[idx].sz);
            write::<M, _>(&env.use_ptr, (read::<M, _>(&env.use_ptr) + 1) % env.sz);
            // 11. pthread_mutex_lock(&((g_env[idx]).gradMtx));
            let mut grad = M::mutex_lock(&env.grad_mtx);
            // 12. g_env[idx].cnt--;
            let cnt = *grad;
            mapping.set_cnt(idx, &mut grad, cnt - 1);
            // 13. pthread_cond_signal(&(g_env[idx].gradEmpty));
            M::cond_signal(&env.grad_empty);
            // 14. pthread_mutex_unlock(&(g_env[idx].gradMtx));
            M::mutex_unlock(grad);
            // 15. idx = (idx + 1) % workerNum;
            idx = (idx + 1) % worker_num;
            processed += 1;
        }
    }
}

/// The update of line 7: in place, without a lock.
fn update<M: Pthreads>(mapping: &Mapping<M>, src: Gradient) {
    mapping.ledger().take(src);
    mapping.g_param.fetch_add(Site::Caller, 1, mapping.memory.store());
}
